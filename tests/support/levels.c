#include "levels.h"

#include "observe/find.h"
#include "testing/testing.h"

#include <stdio.h>

uint32_t levels_of_job(pid_t launcher) {
    char why[FIND_WHY_SIZE], pid[16];
    found f;
    snprintf(pid, sizeof pid, "%d", (int)launcher);
    if (!find_job_tables(pid, &f, why, sizeof why)) fail_msg("%s", why);
    uint32_t levels = f.images[0].levels;
    for (int i = 1; i < f.count; i++) levels = f.images[i].levels == levels ? levels : 0;
    find_free(&f);
    return levels;
}

void await_levels_of_job(pid_t launcher, uint32_t levels) {
    while (levels_of_job(launcher) != levels) continue;
}
