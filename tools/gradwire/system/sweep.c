#include "system/sweep.h"

#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "system/proc.h"

static int find(const proc *all, int count, pid_t pid) {
    for (int i = 0; i < count; i++) {
        if (all[i].pid == pid) return i;
    }
    return -1;
}

// Puts those below |root| first, parents before children, and returns how many they are.
static int gather_below(proc *all, int count, pid_t root, const pid_t spared[SWEEP_SPARED]) {
    int below = 0;
    for (int done = -1; done < below; done++) {
        pid_t parent = done < 0 ? root : all[done].pid;
        for (int i = below; i < count; i++) {
            bool is_own = false;
            for (int k = 0; k < SWEEP_SPARED; k++) is_own |= all[i].pid == spared[k];
            if (all[i].parent != parent || is_own) continue;
            proc p = all[i];
            all[i] = all[below];
            all[below++] = p;
        }
    }
    return below;
}

static bool is_spared(const proc *p, const sweep_options *options) {
    for (int i = 0; i < options->spared_group_count; i++) {
        if (options->spared_groups[i] == p->group) return true;
    }
    return false;
}

int sweep(int signal_number, sweep_options options) {
    proc *all = NULL;
    int count = proc_list(&all);
    if (count < 0 || find(all, count, getpid()) < 0) {
        free(all);
        return -1;
    }
    int below = gather_below(all, count, getpid(), options.spared), alive = 0;
    for (int i = 0; i < below; i++) {
        if (proc_is_zombie(&all[i])) continue;
        alive++;
        if (signal_number && !is_spared(&all[i], &options)) proc_signal(&all[i], signal_number);
    }
    free(all);
    return alive;
}
