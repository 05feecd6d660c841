#include "base/process_number.h"

#include <gradwire/binding.h>
#include <pthread.h>

uint32_t process_number;

static void count_in_child(void) {
    process_number++;
}

// Without memory no fork is counted.
static void begin(void) {
    pthread_atfork(NULL, NULL, count_in_child);
}

void process_number_count(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, begin);
}

bool gw_rpc_is_forked(void) {
    return process_number > 0;
}
