// Debian's redis-server on a port of 127.0.0.1, for one test; if it is not installed, the test is skipped.
//
// Ownership: redis_server_stop ends the server, as does the end of the test's process. Threads: one thread, any.
#ifndef TESTING_REDIS_SERVER_H
#define TESTING_REDIS_SERVER_H

#include <sys/types.h>

typedef struct redis_server {
    char url[64];  // "redis://127.0.0.1:40123"
    int port;
    pid_t pid;
} redis_server;

redis_server redis_server_start(const char *password);  // NULL: no password
void redis_server_stop(redis_server *r);

#endif
