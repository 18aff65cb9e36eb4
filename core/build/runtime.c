/* What is the same in every library: memory, and calls of the compiled pass. See abw.core.build.library. */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "abw_model.h"

#define PUBLIC __attribute__((visibility("default")))
#define LINE 64

/* The image: a header, then parts, relocations, heads of arenas, and the memory of parts and heads, where each
 * begins at a multiple of LINE. */
struct header {
    char magic[8];
    uint64_t version, hash, bytes, parts, relocations, arenas;
};
struct part { int64_t begin, bytes, shared; };
struct relocation { int64_t part, byte, kind, target, offset; };
struct head { int64_t begin, bytes, slack; };

/* A compiled loop writes its result and says 0; kernels and loops are called by compiled code alone. */
typedef int32_t answer_function(int64_t *result, void **error, int64_t words, int64_t text, int64_t bytes,
                                int64_t instances);

struct target {
    const char *name;
    uint64_t hash; /* of the image */
    const unsigned char *image; /* NULL: the weights are in a file */
    answer_function *answer;
    void *const *code;
    int (*runs_here)(void);
};

struct abw_model {
    const struct target *target;
    unsigned char *file; /* what was read, if weights are in a file */
    const struct header *header;
    const struct part *parts;
    const struct relocation *relocations;
    const struct head *heads;
};

struct abw_workspace {
    const struct abw_model *model;
    char **memory; /* of each part */
    char *block, **arenas;
    int32_t **labels; /* of each output */
    int64_t *words;
    int answered;
};

#include "model.h"

static void *aligned(size_t bytes) {
    void *memory = NULL;
    if (bytes > (size_t)1 << 46) return NULL;
    bytes = (bytes + LINE) & ~(size_t)(LINE - 1); /* never none */
    return posix_memalign(&memory, LINE, bytes) ? NULL : memory;
}

static uint64_t hash_of(const unsigned char *bytes, size_t count) {
    uint64_t hash = 0xcbf29ce484222325u, word;
    for (size_t i = 0; i + 8 <= count; i += 8) {
        memcpy(&word, bytes + i, 8);
        hash = (hash ^ word) * 0x100000001b3u;
        hash ^= hash >> 29;
    }
    return hash;
}

/* Reads the weights of a target from a file, which has one image for each. */
static int read_file(const char *path, const struct target *target, unsigned char **found) {
    struct header header;
    int ends = ABW_FILE;
    FILE *file = fopen(path, "rb");
    *found = NULL;
    if (!file) return ABW_FILE;
    while (fread(&header, sizeof header, 1, file) == 1) {
        if (memcmp(header.magic, MAGIC, 8) || header.version != VERSION || header.bytes > (uint64_t)1 << 46 ||
            header.bytes % LINE || header.bytes < sizeof header) break;
        if (header.hash != target->hash) {
            if (fseeko(file, (off_t)(header.bytes - sizeof header), SEEK_CUR)) break;
            continue;
        }
        *found = aligned(header.bytes);
        if (!*found) { ends = ABW_MEMORY; break; }
        memcpy(*found, &header, sizeof header);
        if (fread(*found + sizeof header, header.bytes - sizeof header, 1, file) == 1 &&
            hash_of(*found + sizeof header, header.bytes - sizeof header) == header.hash) ends = ABW_OK;
        break;
    }
    fclose(file);
    if (ends != ABW_OK) { free(*found); *found = NULL; }
    return ends;
}

PUBLIC abw_model *abw_load(const char *weights, int *error) {
    abw_model *model = calloc(1, sizeof *model);
    int ignored, *ends = error ? error : &ignored;
    *ends = ABW_MEMORY;
    if (!model) return NULL;
    for (size_t t = 0; t < sizeof targets / sizeof *targets && !model->target; t++)
        if (targets[t].runs_here()) model->target = &targets[t];
    *ends = !model->target ? ABW_PROCESSOR : ABW_OK;
    const unsigned char *image = model->target ? model->target->image : NULL;
    if (*ends == ABW_OK && !image) {
        *ends = weights ? read_file(weights, model->target, &model->file) : ABW_FILE;
        image = model->file;
    } else if (*ends == ABW_OK && weights) {
        *ends = ABW_FILE;
    }
    if (*ends != ABW_OK) { free(model); return NULL; }
    model->header = (const struct header *)image;
    model->parts = (const struct part *)(model->header + 1);
    model->relocations = (const struct relocation *)(model->parts + model->header->parts);
    model->heads = (const struct head *)(model->relocations + model->header->relocations);
    return model;
}

PUBLIC void abw_free(abw_model *model) {
    if (model) free(model->file);
    free(model);
}

PUBLIC const char *abw_target(const abw_model *model) { return model->target->name; }

PUBLIC void abw_free_workspace(abw_workspace *space) {
    if (!space) return;
    const struct header *header = space->model->header;
    for (uint64_t p = 0; space->memory && p < header->parts; p++)
        if (!space->model->parts[p].shared) free(space->memory[p]);
    for (uint64_t a = 0; space->arenas && a < header->arenas; a++) free(space->arenas[a]);
    free(space->memory);
    for (size_t k = 0; space->labels && k < sizeof outputs / sizeof *outputs; k++) free(space->labels[k]);
    free(space->labels);
    free(space->arenas);
    free(space->block);
    free(space);
}

PUBLIC abw_workspace *abw_new_workspace(const abw_model *model) {
    const struct header *header = model->header;
    const char *image = (const char *)header;
    abw_workspace *space = calloc(1, sizeof *space);
    if (!space) return NULL;
    space->model = model;
    space->memory = calloc(header->parts, sizeof *space->memory);
    space->arenas = calloc(header->arenas + 1, sizeof *space->arenas);
    space->labels = calloc(sizeof outputs / sizeof *outputs, sizeof *space->labels);
    if (!space->memory || !space->arenas || !space->labels) goto none;
    for (uint64_t p = 0; p < header->parts; p++) {
        const struct part *part = &model->parts[p];
        if (part->shared) {
            space->memory[p] = (char *)image + part->begin;
        } else {
            space->memory[p] = aligned(part->bytes);
            if (!space->memory[p]) goto none;
            memcpy(space->memory[p], image + part->begin, part->bytes);
        }
    }
    for (uint64_t r = 0; r < header->relocations; r++) {
        const struct relocation *found = &model->relocations[r];
        void *to = found->kind == TO_CODE ? model->target->code[found->target]
                                          : space->memory[found->target] + found->offset;
        memcpy(space->memory[found->part] + found->byte, &to, sizeof to);
    }
    space->words = (int64_t *)space->memory[0];
    return space;
none:
    abw_free_workspace(space);
    return NULL;
}

/* Has a block of so many bytes, from which a pass takes what it needs. */
static int have_block(abw_workspace *space, int64_t bytes) {
    if (bytes > MOST_BLOCK) return ABW_LARGE;
    free(space->block);
    space->block = aligned(bytes);
    space->words[BLOCK] = (int64_t)space->block;
    space->words[ROOM] = space->block ? bytes : 0;
    return space->block ? ABW_OK : ABW_MEMORY;
}

/* Has as many rows of the arenas as the pass asks for. Each begins with constants. */
static int have_rows(abw_workspace *space) {
    int64_t *held = (int64_t *)space->words[HELD], *table = (int64_t *)space->words[ARENA];
    const int64_t *pitch = (const int64_t *)space->words[PITCH];
    const int32_t *rows = (const int32_t *)space->words[ROWS_NOW];
    for (uint64_t a = 0; a < space->model->header->arenas; a++) {
        if (held[a] >= rows[a]) continue;
        const struct head *head = &space->model->heads[a];
        int64_t wanted = rows[a] + rows[a] / 2;
        free(space->arenas[a]);
        held[a] = table[a] = 0;
        space->arenas[a] = aligned(wanted * pitch[a] + head->slack);
        if (!space->arenas[a]) return ABW_MEMORY;
        memcpy(space->arenas[a], (const char *)space->model->header + head->begin, head->bytes);
        table[a] = (int64_t)space->arenas[a];
        held[a] = wanted;
    }
    return ABW_OK;
}

/* Finds the labels of the outputs that are such, the first of equals. */
static int find_labels(abw_workspace *space) {
    for (size_t k = 0; k < sizeof outputs / sizeof *outputs; k++) {
        if (!labelled[k]) continue;
        const int64_t *said = (const int64_t *)space->words[OUTPUTS] + k * OF_OUTPUT;
        const float *row = (const float *)said[AT_VALUES];
        size_t count = (size_t)said[VALUES], size = outputs[k].shape[0];
        int32_t *labels = realloc(space->labels[k], (count + 1) * sizeof *labels);
        if (!labels) return ABW_MEMORY;
        space->labels[k] = labels;
        for (size_t v = 0; v < count; v++, row += size) {
            labels[v] = 0;
            for (size_t j = 0; j < size && labels[v] >= 0; j++)
                if (row[j] != row[j]) labels[v] = -1;
                else if (row[j] > row[labels[v]]) labels[v] = (int32_t)j;
        }
    }
    return ABW_OK;
}

PUBLIC int abw_answer(abw_workspace *space, const char *text, size_t bytes, size_t instances) {
    int64_t *words = space->words, result;
    void *error = NULL;
    space->answered = 0;
    if (!text || !bytes || !instances) return ABW_TEXT;
    if (bytes > MOST_TEXT || instances > bytes) return bytes > MOST_TEXT ? ABW_LARGE : ABW_TEXT;
    words[FIRST] = 0;
    words[LAST] = (int64_t)instances;
    int ends = space->block ? ABW_OK : have_block(space, LEAST_BLOCK);
    while (ends == ABW_OK) {
        if (space->model->target->answer(&result, &error, (int64_t)words, (int64_t)text, (int64_t)bytes,
                                         (int64_t)instances)) return ABW_TEXT;
        if (result == MORE) ends = have_block(space, 2 * words[NEXT]);
        else if (result == ROWS) ends = have_rows(space);
        else if (result == FINE) {
            ends = find_labels(space);
            space->answered = ends == ABW_OK;
            return ends;
        }
        else return result == APART ? ABW_LARGE : ABW_TEXT;
    }
    return ends;
}

PUBLIC size_t abw_outputs(const abw_model *model) {
    (void)model;
    return sizeof outputs / sizeof *outputs;
}

PUBLIC int abw_output(const abw_workspace *space, size_t number, abw_values *found) {
    memset(found, 0, sizeof *found);
    if (!space->answered || number >= sizeof outputs / sizeof *outputs) return ABW_NOTHING;
    const int64_t *said = (const int64_t *)space->words[OUTPUTS] + number * OF_OUTPUT;
    *found = outputs[number];
    found->count = (size_t)said[VALUES];
    found->values = (const float *)said[AT_VALUES];
    found->offsets = (const int64_t *)said[AT_OFFSETS];
    found->vertices = (const int32_t *)said[AT_VERTEX];
    found->labels = space->labels[number];
    return ABW_OK;
}

PUBLIC const char *abw_error(int code) {
    switch (code) {
    case ABW_OK: return "no error";
    case ABW_TEXT: return "the text is not so many instances, one a line, as the model reads them";
    case ABW_LARGE: return "the instances are too many or too large for one call";
    case ABW_MEMORY: return "there is not enough memory";
    case ABW_PROCESSOR: return "the library was built for other processors";
    case ABW_FILE: return "this is not the file of weights that was built with the library";
    case ABW_NOTHING: return "there is no such output of a call that went well";
    }
    return "unknown error";
}
