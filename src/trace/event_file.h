// The bytes of TensorBoard's event files: records of TFRecord, each with an Event
// (https://github.com/tensorflow/tensorflow/blob/master/tensorflow/core/util/event.proto), written by hand.
//
//     record: size u64 | masked CRC-32C of the size | the Event | masked CRC-32C of the Event
//
// Threads: any.
#ifndef TRACE_EVENT_FILE_H
#define TRACE_EVENT_FILE_H

#include "base/bytes.h"

// Appends the record that a file begins with. Without memory |out| fails.
void event_file_put_version(bytes *out, double wall_s);
// Appends a point of the curve |tag|, which is UTF-8.
void event_file_put_scalar(bytes *out, double wall_s, const char *tag, float value, int64_t step);

#endif
