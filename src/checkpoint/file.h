// Files and folders on the disk. Every error is an error of the scope, with the name of the system call.
#ifndef CHECKPOINT_FILE_H
#define CHECKPOINT_FILE_H

#include "checkpoint/checkpoint.h"

typedef struct file {
    gw_scope *scope;
    int fd;  // -1: closed
} file;

// From errno: NOT_FOUND or SYSTEM. Returns false.
bool file_failed(gw_scope *s, const char *call);

// A new file; EXISTS is an error of the system. NULL of |path| is not allowed.
file file_make(gw_scope *s, const char *path);
// Opens for reading: a regular file only.
file file_open(gw_scope *s, const char *path, uint64_t *out_size);
void file_close(file *f);

// |context| is a file: for checkpoint_sink and checkpoint_source.
bool file_write(void *context, const void *bytes, size_t size);
bool file_read(void *context, void *out, size_t size, uint64_t at);

// The new name of a file is on the disk only once its folder is.
bool file_sync_folder(gw_scope *s, const char *folder);
// Of the path of a file: "." if it has none.
const char *file_folder_of(gw_scope *s, const char *path);

#endif
