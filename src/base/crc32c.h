// CRC-32C (Castagnoli), as in RFC 3720. In the 256 KiB of a frame, it detects every error of up to 3 bits, and every
// burst of up to 32 bits; of other errors it misses one in 4 billion.
//
// Computed by the instruction of SSE 4.2 where the processor has it, else by a table.
#ifndef BASE_CRC32C_H
#define BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

// The sum of |size| bytes that follow those with the sum |crc|; of no bytes: 0. Any thread.
uint32_t crc32c(uint32_t crc, const void *data, size_t size);

// The same on any processor. For tests.
uint32_t crc32c_by_table(uint32_t crc, const void *data, size_t size);

#endif
