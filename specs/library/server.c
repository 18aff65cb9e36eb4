/* A server on loopback: each line that a client sends is an instance, and is answered by a line of JSON with the
 * values of the first output. A thread and a workspace for each connection.
 *
 *     abw build sst -o libsst.so
 *     cc -O2 -pthread -o server server.c -include libsst.h ./libsst.so
 *     ./server 7300 & printf '(2 (3 good) (2 film))\n' | nc -N 127.0.0.1 7300
 */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>

/* Lines are longer than this only by mistake. */
enum { LONGEST = 1 << 24 };

static abw_model *model;

static void write_answer(FILE *out, const abw_workspace *space) {
    abw_values found;
    abw_output(space, 0, &found);
    size_t size = found.shape[0] * found.shape[1];
    fputc('[', out);
    for (size_t v = 0; v < found.count; v++) {
        fputs(v ? ", [" : "[", out);
        for (size_t i = 0; i < size; i++) fprintf(out, i ? ", %.9g" : "%.9g", found.values[v * size + i]);
        fputc(']', out);
    }
    fputs("]\n", out);
}

static void *serve(void *given) {
    int connection = (int)(size_t)given;
    FILE *in = fdopen(connection, "r"), *out = fdopen(dup(connection), "w");
    abw_workspace *space = abw_new_workspace(model);
    char *line = NULL;
    size_t room = 0;
    ssize_t bytes;
    while (in && out && space && (bytes = getline(&line, &room, in)) > 0 && bytes < LONGEST) {
        if (line[bytes - 1] == '\n') bytes--;
        int error = abw_answer(space, line, (size_t)bytes, 1);
        if (error) fprintf(out, "{\"error\": \"%s\"}\n", abw_error(error));
        else write_answer(out, space);
        if (fflush(out)) break;
    }
    free(line);
    abw_free_workspace(space);
    if (out) fclose(out);
    if (in) fclose(in);
    else close(connection);
    return NULL;
}

int main(int count, char **words) {
    int error, yes = 1;
    struct sockaddr_in address = {.sin_family = AF_INET};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons((uint16_t)(count > 1 ? atoi(words[1]) : 7300));
    signal(SIGPIPE, SIG_IGN);
    model = abw_load(count > 2 ? words[2] : NULL, &error);
    if (!model) {
        fprintf(stderr, "%s\n", abw_error(error));
        return 1;
    }
    int listening = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(listening, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(listening, (struct sockaddr *)&address, sizeof address) || listen(listening, 128)) {
        perror("server");
        return 1;
    }
    socklen_t size = sizeof address;
    getsockname(listening, (struct sockaddr *)&address, &size);
    printf("listening on 127.0.0.1:%d\n", ntohs(address.sin_port));
    fflush(stdout);
    for (;;) {
        pthread_t thread;
        int connection = accept(listening, NULL, NULL);
        if (connection < 0) continue;
        setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
        if (pthread_create(&thread, NULL, serve, (void *)(size_t)connection)) close(connection);
        else pthread_detach(thread);
    }
}
