// A loader continues at the position of another one.
#include "data_test.h"

static gw_dataset *tens(gw_scope *s, int64_t count) {
    return gw_dataset_open(s, "tens", count, ten_times, NULL);
}

static gw_data_loader *open_loader(gw_scope *s, int64_t seed, int threads) {
    return gw_data_loader_open(s, tens(s, 11), .batch_size = 3, .shuffle = true, .seed = seed,
                               .num_workers = threads);
}

// The batch, or NULL at an epoch's end.
static gw_tensor *next(gw_scope *s, gw_data_loader *l) {
    return gw_data_loader_next(s, l) ? gw_data_loader_tensor(s, l, 0) : NULL;
}

static void a_loaded_loader_continues_with_the_same_batches(void **state) {
    (void)state;
    enum { STEPS = 12 };
    for (int threads = 0; threads < 2; threads++) {
        for (int given = 0; given < STEPS; given++) {
            gw_scope *s = gw_scope_open(NULL);
            gw_data_loader *l = open_loader(s, 4, threads), *resumed = open_loader(s, 9, threads);
            gw_data_loader_next(s, resumed);
            for (int i = 0; i < given; i++) next(s, l);
            gw_data_loader_load_state_dict(s, resumed, gw_data_loader_state_dict(s, l));
            assert_int_equal(gw_data_loader_epoch(resumed), gw_data_loader_epoch(l));
            for (int i = 0; i < STEPS; i++) {
                gw_tensor *expected = next(s, l), *x = next(s, resumed);
                assert_true(!x == !expected && (!x || gw_equal(s, x, expected)));
            }
            assert_int_equal(gw_scope_close(s).status, GW_OK);
        }
    }
}

static void invalid_state_is_refused_and_changes_nothing(void **state) {
    (void)state;
    const struct {
        const char *key;
        gw_value value;
        const char *words;
    } cases[] = {
        { "count", gw_value_of(12), ": the state is for epochs of" },
        { "position", gw_value_of(12), "tens: the state has position 12 in epoch 0" },
        { "epoch", gw_value_of(-1), "in epoch -1" },
        { "seed", gw_value_of("one"), "\"seed\" is string, not an int" },
        { "colour", gw_value_of(1), "keys that the state of a loader does not have" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gw_scope *root = gw_scope_open(NULL), *s = gw_scope_open(root);
        gw_data_loader *l = open_loader(root, 4, 0), *other = open_loader(root, 4, 0);
        next(root, l), next(root, other);
        gw_map *map = gw_data_loader_state_dict(s, l);
        gw_map_put(s, map, cases[i].key, cases[i].value);
        gw_data_loader_load_state_dict(s, l, map);
        assert_fails(s, GW_INVALID, cases[i].words);
        assert_true(gw_equal(root, next(root, l), next(root, other)));
        assert_int_equal(gw_scope_close(root).status, GW_OK);
    }
    gw_scope *s = gw_scope_open(NULL);
    gw_data_loader_load_state_dict(s, open_loader(s, 1, 0), gw_map_open(s));
    assert_fails(s, GW_INVALID, "\"epoch\" is missing");
}

GW_TESTS(data_loader_state, a_loaded_loader_continues_with_the_same_batches,
         invalid_state_is_refused_and_changes_nothing);
