#include "system/proc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int open_file(pid_t pid, const char *name) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    return open(path, O_RDONLY | O_CLOEXEC);
}

bool proc_read(pid_t pid, proc *out) {
    char text[1024];
    int fd = open_file(pid, "stat");
    if (fd < 0) return false;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    if (n <= 0) return false;
    text[n] = '\0';
    // The second field is the program's name in parentheses, and may hold anything.
    const char *after_name = strrchr(text, ')');
    proc p = { .pid = pid };
    int found = !after_name ? 0
                            : sscanf(after_name + 1,
                                     " %c %d %d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d"
                                     " %*d %d %*d %" SCNu64,
                                     &p.state, &p.parent, &p.group, &p.thread_count, &p.start_time);
    if (found != 5) return false;
    *out = p;
    return true;
}

// When only the first thread has ended, the state is the same.
bool proc_is_zombie(const proc *p) {
    return (p->state == 'Z' || p->state == 'X') && p->thread_count <= 1;
}

bool proc_signal(const proc *p, int signal_number) {
    int fd = (int)syscall(SYS_pidfd_open, p->pid, 0);
    if (fd < 0 && errno != ENOSYS && errno != EPERM) return false;
    proc now;
    bool is_same = proc_read(p->pid, &now) && now.start_time == p->start_time;
    bool ok = false;
    if (!is_same) {
        errno = ESRCH;
    } else if (fd >= 0) {
        ok = syscall(SYS_pidfd_send_signal, fd, signal_number, NULL, 0) == 0;
    } else {
        ok = kill(p->pid, signal_number) == 0;
    }
    int error = errno;
    if (fd >= 0) close(fd);
    errno = error;
    return ok;
}

int proc_list(proc **out_all) {
    DIR *folder = opendir("/proc");
    if (!folder) return -1;
    proc *all = NULL;
    int count = 0, capacity = 0;
    for (struct dirent *entry; (entry = readdir(folder));) {
        char *end;
        long pid = strtol(entry->d_name, &end, 10);
        if (*end || pid <= 0) continue;
        if (count == capacity) {
            int more = capacity ? 2 * capacity : 512;
            proc *larger = realloc(all, (size_t)more * sizeof *all);
            if (!larger) break;  // those found so far are better than none
            all = larger;
            capacity = more;
        }
        if (proc_read((pid_t)pid, &all[count])) count++;
    }
    closedir(folder);
    *out_all = all;
    return count;
}

proc_mark proc_find_mark(pid_t pid, const char *mark) {
    enum { CHUNK = 8 * 1024 };
    char text[CHUNK];
    size_t mark_size = strlen(mark), kept = 0;
    int fd = open_file(pid, "environ");
    if (fd < 0) return MARK_UNKNOWN;
    bool found = false, is_empty = true;
    for (ssize_t n; !found && (n = read(fd, text + kept, sizeof text - kept)) > 0;) {
        size_t size = kept + (size_t)n;
        is_empty = false;
        found = memmem(text, size, mark, mark_size);
        // It may lie across two reads.
        kept = size < mark_size - 1 ? size : mark_size - 1;
        memmove(text, text + size - kept, kept);
    }
    close(fd);
    return found ? MARK_PRESENT : is_empty ? MARK_UNKNOWN : MARK_ABSENT;
}
