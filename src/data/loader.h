// Shared by the files of this room: loaders.
#ifndef DATA_LOADER_H
#define DATA_LOADER_H

#include "data/sampler.h"

typedef struct read_ahead read_ahead;

struct gw_data_loader {
    gw_handle handle;

    // arguments
    gw_dataset *dataset;  // counted
    gw_sampler *sampler;  // counted
    bool made_sampler;    // it is the only holder
    gw_collate *collate;  // NULL: the default
    void *collate_state;
    int64_t batch_size;
    bool as_is;  // batches are items
    bool drop_last;
    uint64_t seed;
    int thread_count, ahead_count;  // batches that are read ahead

    // state
    int64_t epoch;     // that |order| is of
    int64_t *order;    // indices of items; NULL between epochs
    int64_t position;  // items given in the epoch
    bool has_batch;
    gw_value batch;     // a copy
    read_ahead *ahead;  // NULL before the first batch
};

bool loader_check(gw_scope *s, const gw_data_loader *l, const char *function);

// Items in the batch that begins with item |start| of the epoch; 0 if there is none.
int64_t loader_batch_size(const gw_data_loader *l, int64_t start);

// Reads that batch into |out|, a copy, in |s|, on any thread. False with |s| failed.
bool loader_read(gw_scope *s, const gw_data_loader *l, int64_t start, gw_value *out);

// Forgets the batch, and the batches read ahead, and is between epochs.
void loader_rewind(gw_data_loader *l);

// ---- Threads that read ahead --------------------------------------------------------------------

// Waits for the batch at |l->position|, starts threads if there are none, and has those after it
// read. False with |s| failed.
bool read_ahead_take(gw_scope *s, gw_data_loader *l, gw_value *out);

void read_ahead_stop(read_ahead *a);   // forgets all; no thread reads any more
void read_ahead_close(read_ahead *a);  // joins the threads

#endif
