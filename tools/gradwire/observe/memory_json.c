#include "observe/memory_json.h"

const char *memory_json_name(memory_kind kind) {
    static const char *const names[MEMORY_KINDS] = {
        [MEMORY_TENSORS] = "tensors",
        [MEMORY_PARAMETERS] = "parameters",
        [MEMORY_SAVED] = "saved_for_backward",
        [MEMORY_GRADIENTS] = "gradients",
        [MEMORY_OPTIMIZERS] = "optimizers",
        [MEMORY_KEPT] = "old_values",
        [MEMORY_IDLE] = "idle",
        [MEMORY_EXTERNAL] = "of_program",
        [MEMORY_MAPPED] = "of_other_workers",
        [MEMORY_RINGS] = "rings",
        [MEMORY_RECORDS] = "records",
    };
    return names[kind];
}

json_t *memory_json(const uint64_t bytes[MEMORY_KINDS]) {
    json_t *out = json_object();
    for (int i = 0; i < MEMORY_KINDS; i++)
        json_object_set_new(out, memory_json_name((memory_kind)i),
                            json_integer((json_int_t)bytes[i]));
    return out;
}
