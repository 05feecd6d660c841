// What the service of references keeps at an agent.
#include "reference/references.h"

#include "base/mem.h"

// ---- Origins ------------------------------------------------------------------------------------

const char *origin_keep_on_loop(references *rs, const char *origin, size_t size) {
    char text[LIMIT_ORIGIN_BYTES + 1];
    if (size > LIMIT_ORIGIN_BYTES) size = LIMIT_ORIGIN_BYTES;
    for (size_t i = 0; i < size; i++)
        text[i] = origin[i] < ' ' || origin[i] > '~' ? '?' : origin[i];
    text[size] = '\0';
    if (!size) return "";
    char *kept = map_find_name(&rs->origins, text);
    if (kept) return kept;
    if (rs->origins.count >= LIMIT_SITES || !(kept = mem_strdup(text))) return "";
    if (map_put_name(&rs->origins, kept, kept)) return kept;
    mem_free(kept);
    return "";
}

static void free_origins(references *rs) {
    for (map_cursor m = { 0 }; map_next(&rs->origins, &m);) mem_free(m.value);
    map_fini(&rs->origins);
}

// ---- Life ---------------------------------------------------------------------------------------

gw_status reference_state_open(agent *a, void **state, gw_error *error) {
    references *rs = mem_calloc(sizeof *rs);
    if (!rs) return error_set(error, GW_NO_MEMORY, "no memory for references");
    rs->agent = a;
    list_init(&rs->entries);
    list_init(&rs->fetches);
    list_init(&rs->users);
    rs->turn = turn_open_on_loop(a);
    if (!rs->turn) {
        mem_free(rs);
        return error_set(error, GW_NO_MEMORY, "no memory for references");
    }
    *state = rs;
    return GW_OK;
}

static void open_peer(void *part) {
    list_init(&((reference_peer *)part)->releases);
}

const service_data reference_data = { .member_size = sizeof(reference_peer),
                                      .member_init = open_peer };

void reference_state_free(void *state) {
    references *rs = state;
    map_fini(&rs->by_id);
    map_fini(&rs->pending);
    map_fini(&rs->pins);
    free_origins(rs);
    turn_release(rs->turn);
    mem_free(rs);
}
