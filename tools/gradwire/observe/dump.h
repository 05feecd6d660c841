// Files of images, NAME.gwt: what processes were doing at one moment, for later and for other machines.
//
//     "gwtdump1" | version u32 | count u32 | count times: size u64, bytes of an image
//
// Integers are little-endian. Strings are only those that records have. A dump has at most DUMP_BYTES: the oldest
// records are left out and counted.
#ifndef GRADWIRE_DUMP_H
#define GRADWIRE_DUMP_H

#include "base/bytes.h"
#include "observe/image.h"

enum {
    DUMP_BYTES = 20 * 1000 * 1000,
    DUMP_READ_BYTES_MAX =
        1024 * 1024 * 1024,  // of a file that is read; traces may be larger than dumps
    DUMP_VERSION = 2,
    DUMP_IMAGES_MAX = 1024
};

#define DUMP_MAGIC "gwtdump1"  // 8 bytes, without the zero

// Writes a file of mode 0600 in the folder of |path|, and renames it to |path|. Returns false, with errno, if that fails: |path| is then
// what it was.
bool dump_write(const char *path, const image *images, int count);

// Returns false, with the place and the reason in |why|, if it is no such file. |*out_images| is for image_free_all.
bool dump_read(const char *path, image **out_images, int *out_count, char *why, size_t why_size);

// The bytes of a file of about |bytes_max| bytes. Without memory |out| fails.
void dump_encode(const image *images, int count, size_t bytes_max, bytes *out);
bool dump_decode(const void *data, size_t size, image **out_images, int *out_count, char *why,
                 size_t why_size);

#endif
