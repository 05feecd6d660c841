#include "monitor/process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/system_error.h"
#include "monitor/http.h"
#include "monitor/serve.h"
#include "system/lifeline.h"

enum { LIFELINE_FD = 3, PAGE_FD, METRICS_FD, LOOKS_FD, FDS_END, FDS_MOVED = FDS_END - LIFELINE_FD };

// Of the launcher's descriptors it keeps those that it needs, and standard error.
static bool move_descriptors(monitor_process *m, int lifeline_fd) {
    monitor_site *site = &m->site;
    const int from[FDS_MOVED] = { lifeline_fd, site->page_fd, site->metrics_fd, m->looks_fd };
    int high[FDS_MOVED];
    for (int i = 0; i < FDS_MOVED; i++) {
        high[i] = from[i] < 0 ? -1 : fcntl(from[i], F_DUPFD_CLOEXEC, FDS_END);
        if (from[i] >= 0 && high[i] < 0) return false;
    }
    for (int i = 0; i < FDS_MOVED; i++) {
        if (high[i] >= 0 && dup2(high[i], LIFELINE_FD + i) < 0) return false;
        if (high[i] < 0) close(LIFELINE_FD + i);  // one of the launcher's
    }
    for (int fd = 0; fd < 2; fd++) {
        close(fd);
        if (open("/dev/null", O_RDWR) != fd) return false;
    }
    syscall(SYS_close_range, FDS_END, ~0U, 0);
    site->page_fd = PAGE_FD;
    if (site->metrics_fd >= 0) site->metrics_fd = METRICS_FD;
    if (m->looks_fd >= 0) m->looks_fd = LOOKS_FD;
    return true;
}

_Noreturn static void become_monitor(monitor_process *m, int lifeline_fd, pid_t launcher) {
    char why[LISTEN_WHY_SIZE] = "no descriptors";
    setsid();  // excludes this process from the signals and the hang-up of a terminal
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != launcher) _exit(1);  // it ended before the line above
    prctl(PR_SET_NAME, "gradwire-page");
    bool ok =
        move_descriptors(m, lifeline_fd) && serve(&(serve_options){ .wanted = m->mark,
                                                                    .expected = m->expected,
                                                                    .site = &m->site,
                                                                    .looks_fd = m->looks_fd,
                                                                    .lifeline_fd = LIFELINE_FD },
                                                  why, sizeof why);
    if (!ok) fprintf(stderr, "gradwire: the page of the job is not served: %s\n", why);
    _exit(!ok);
}

// Returns false with errno.
static bool start(monitor_process *m) {
    int fd;
    pid_t launcher = getpid(), pid = lifeline_fork(&fd);
    if (pid == 0) become_monitor(m, fd, launcher);
    if (pid < 0) return false;
    m->pid = pid;
    m->lifeline_fd = fd;
    return true;
}

bool monitor_process_open(monitor_process *m, const monitor_options *o, char *why,
                          size_t why_size) {
    m->lifeline_fd = -1;
    m->site.page_fd = m->site.metrics_fd = -1;
    if (!http_is_available(why, why_size) || !monitor_site_open(&m->site, o, why, why_size))
        return false;
    if (start(m)) return true;
    snprintf(why, why_size, "fork: %s", system_thread_error_text(errno).text);
    monitor_site_close(&m->site);
    return false;
}

static void close_lifeline(monitor_process *m) {
    if (m->lifeline_fd >= 0) close(m->lifeline_fd);
    m->lifeline_fd = -1;
}

void monitor_process_close(monitor_process *m) {
    close_lifeline(m);
    if (m->pid) {
        kill(m->pid, SIGKILL);  // it holds nothing that is to be saved
        while (waitpid(m->pid, NULL, 0) < 0 && errno == EINTR) continue;
    }
    m->pid = 0;
    monitor_site_close(&m->site);
}

bool monitor_process_restart(monitor_process *m) {
    m->pid = 0;
    close_lifeline(m);
    if (!m->was_restarted && start(m)) return m->was_restarted = true;
    monitor_site_close(&m->site);
    return false;
}
