/* Answers each line of standard input: a line of numbers for each value of each output.
 *
 *     abw build sst -o libsst.so
 *     cc -O2 -o answer answer.c -include libsst.h ./libsst.so
 *     ./answer < trees.txt
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

int main(int count, char **words) {
    int error;
    abw_model *model = abw_load(count > 1 ? words[1] : NULL, &error);
    if (!model) {
        fprintf(stderr, "%s\n", abw_error(error));
        return 1;
    }
    abw_workspace *space = abw_new_workspace(model);
    char *line = NULL;
    size_t room = 0;
    ssize_t bytes;
    for (size_t number = 1; space && (bytes = getline(&line, &room, stdin)) > 0; number++) {
        if (line[bytes - 1] == '\n') bytes--;
        error = abw_answer(space, line, (size_t)bytes, 1);
        if (error) fprintf(stderr, "line %zu: %s\n", number, abw_error(error));
        for (size_t k = 0; !error && k < abw_outputs(model); k++) {
            abw_values found;
            abw_output(space, k, &found);
            for (size_t v = 0, size = found.shape[0] * found.shape[1]; v < found.count; v++) {
                printf("%s", found.name);
                for (size_t i = 0; i < size; i++) printf(" %.9g", found.values[v * size + i]);
                printf("\n");
            }
        }
    }
    free(line);
    abw_free_workspace(space);
    abw_free(model);
    return space ? 0 : 1;
}
