#include "observe/subject.h"

#include <stdio.h>
#include <string.h>

#include "observe/dump.h"

bool subject_is_file(const char *wanted) {
    size_t size = wanted ? strlen(wanted) : 0;
    return size && (strchr(wanted, '/') || (size >= 4 && strcmp(wanted + size - 4, ".gwt") == 0));
}

static bool read_file(const char *command, const char *path, found *out) {
    char why[IMAGE_WHY_SIZE];
    *out = (found){ 0 };
    if (dump_read(path, &out->images, &out->count, why, sizeof why)) return true;
    fprintf(stderr, "gradwire %s: %s: %s\n", command, path, why);
    return false;
}

bool subject_open(const char *command, const char *wanted, bool of_one_job, found *out) {
    char why[FIND_WHY_SIZE];
    if (subject_is_file(wanted)) return read_file(command, wanted, out);
    bool ok = of_one_job ? find_job(wanted, out, why, sizeof why)
                         : find_images(wanted, out, why, sizeof why);
    if (!ok) fprintf(stderr, "gradwire %s: %s\n", command, why);
    if (ok && out->refused_count && !wanted)
        fprintf(stderr, "gradwire %s: %d of the memories cannot be read; the first: %s\n", command,
                out->refused_count, out->refused);
    return ok;
}
