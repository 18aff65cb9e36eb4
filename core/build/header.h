/* @MODEL@, as `abw build` made it: docs/build.md.
 *
@OUTPUTS@
 *
 * A model is read by all threads at once; a workspace is one thread's at a time. Pointers that abw_output gives
 * are valid until the next call with the same workspace. */
#ifndef ABW_MODEL_H
#define ABW_MODEL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    ABW_OK,
    ABW_TEXT,      /* the text is not so many instances, one a line, as the model reads them */
    ABW_LARGE,     /* the instances are too many or too large for one call */
    ABW_MEMORY,    /* there is not enough memory */
    ABW_PROCESSOR, /* the library was built for other processors */
    ABW_FILE,      /* this is not the file of weights that was built with the library */
    ABW_NOTHING    /* there is no such output of a call that went well */
};

typedef struct abw_model abw_model;
typedef struct abw_workspace abw_workspace;

/* An output of all instances: `count` values of shape[0] * shape[1] floats, row by row. Those of instance i are
 * the values offsets[i] to offsets[i + 1] - 1; vertices has the vertex of each within its instance. */
typedef struct {
    const char *name;
    size_t count;
    size_t rank;     /* 1 or 2 */
    size_t shape[2]; /* a vector's second size is 1 */
    const float *values;
    const int64_t *offsets;
    const int32_t *vertices;
    const int32_t *labels;     /* of an output that is a label: of each value the number of its largest, -1 for NaN */
    const char *const *names; /* of labels, NULL where they have none */
} abw_values;

/* Loads the model. `weights`: the file of weights where they are beside the library, else NULL. NULL on failure,
 * with the code in *error, if that is not NULL. */
abw_model *abw_load(const char *weights, int *error);
void abw_free(abw_model *model);

/* Which of the processors that the library was built for this is taken for. */
const char *abw_target(const abw_model *model);

/* Makes memory for the calls of a thread; NULL where there is not enough. */
abw_workspace *abw_new_workspace(const abw_model *model);
void abw_free_workspace(abw_workspace *space);

/* Runs the model on instances: `bytes` of UTF-8 text, `instances` lines of the model's data format, the last one
 * without a line end. Returns a code. Memory grows with the largest call, and is kept. */
int abw_answer(abw_workspace *space, const char *text, size_t bytes, size_t instances);

/* How many outputs there are, and output `number` of the last call. Returns a code. */
size_t abw_outputs(const abw_model *model);
int abw_output(const abw_workspace *space, size_t number, abw_values *found);

/* A code in words. */
const char *abw_error(int code);

#ifdef __cplusplus
}
#endif

#endif
