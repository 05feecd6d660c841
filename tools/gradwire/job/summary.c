#include "job/summary.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "agent/settings/error_file.h"
#include "job/report.h"
#include "system/clock.h"

enum { HOST_BYTES = 65, TEXT_BYTES = 1024 };

static void describe_time(const rank *r, char *out, size_t size) {
    time_t ended = time(NULL) - (time_t)((clock_now_ms() - r->ended_ms) / 1000);
    struct tm local;
    if (!localtime_r(&ended, &local) || !strftime(out, size, "%Y-%m-%d %H:%M:%S", &local))
        snprintf(out, size, "an unknown time");
}

// What the worker has said itself: in its file, or to the launcher.
static void print_error(job *j, const rank *r, const char *file) {
    char text[TEXT_BYTES];
    if (file && !r->is_described && error_file_read(file, text, sizeof text))
        sink_print(j->messages, "  error: %s", text);
    else if (r->failed_ns)
        sink_print(j->messages, "  error: %s", r->failed_why);
}

void summary_print(job *j, const rank *r) {
    char host[HOST_BYTES] = "", when[64], how[160], file[LOG_PATH_BYTES];
    int number = run_rank(&j->options, (int)(r - j->ranks));
    gethostname(host, sizeof host - 1);
    describe_time(r, when, sizeof when);
    report_describe(j, r, how, sizeof how);
    sink_print(j->messages, "the first failure: %s", how);
    sink_print(j->messages, "  role default, slot %d, attempt %d, host %s, pid %d, %s", number,
               r->attempt, host, (int)r->pid, when);
    bool has_file = j->options.log_dir &&
                    log_folder_path(&j->logs, number, r->attempt, "error.json", file) &&
                    access(file, R_OK) == 0;
    print_error(j, r, has_file ? file : NULL);
    if (has_file) sink_print(j->messages, "  file: %s", file);
    if (r->last.count) sink_print(j->messages, "  its last lines:");
    last_lines_put(&r->last, r->outputs[0].prefix, j->messages);
}
