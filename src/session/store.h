// The store: the small key-value service where workers find each other, and barriers of the start.
//
// One worker hosts it on the listener of its peers (tcp://, env://), or it is a file (file://). Keys are texts, values
// bytes; a value is set once or compared-and-set, and read by waiting for it.
//
// Threads: with the env's role held; the calls that wait do so by env_wait.
#ifndef SESSION_STORE_H
#define SESSION_STORE_H

#include "session/peers.h"

typedef struct store store;

// The store inside this agent, served to others through |host|'s listener.
gw_status store_open_host(peers *host, store **out, gw_error *error);
// The store at |address|: connects, again and again until |until_ns|, since the host may start later.
gw_status store_open_client(env *e, const char *address, int64_t until_ns, store **out,
                            gw_error *error);
// The store in a file, shared by processes of one machine, locked by fcntl; it is created if absent.
gw_status store_open_file(env *e, const char *path, store **out, gw_error *error);
void store_close(store *st);

// Sets |key| if it is absent. *out_set tells; if it was there, |out_found| (may be NULL) gets its value.
gw_status store_set_if_absent(store *st, const char *key, const void *value, size_t size,
                              int64_t until_ns, bool *out_set, bytes *out_found, gw_error *error);
// Waits for |key|. TIMEOUT at |until_ns|.
gw_status store_wait(store *st, const char *key, int64_t until_ns, bytes *out, gw_error *error);

#endif
