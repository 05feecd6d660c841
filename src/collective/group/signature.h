// The signature of a collective, which has to match on all members: GRP-2.
//
// Ownership: a plain value. Threads: any.
#ifndef COLLECTIVE_GROUP_SIGNATURE_H
#define COLLECTIVE_GROUP_SIGNATURE_H

#include "base/bytes.h"
#include "base/limits.h"
#include "collective/plan/plan.h"
#include <gradwire/collective.h>

typedef enum content {
    CONTENT_TENSOR,   // one of all: rows or sums
    CONTENT_TENSORS,  // any tensors, one of each member or for each
    CONTENT_VALUES,
    CONTENT_ROWS,         // one of all, sparse by rows
    CONTENT_ROWS_SUMMED,  // the same, and each member makes the sum
    CONTENT_COUNT
} content;

// Whether this member will enter the backward for its input, if the operation has a derivative.
typedef enum gradient_need {
    GRADIENT_UNSTATED,
    GRADIENT_NONE,
    GRADIENT_NEEDED,
    GRADIENT_NEED_COUNT
} gradient_need;

enum { SIGNATURE_OPEN = 255 };  // dims, if the member does not state shape and dtype

typedef struct collective_signature {
    uint8_t operation, op, dtype;
    uint8_t plan;  // packed: plan_pack
    uint8_t content, dims, gradient;
    int32_t root;  // -1: without one
    double factor;
    // An odd hash of |sizes| of reduce_scatter, or a hash of the list of coalesced tensors, with 2 for its last two
    // bits; 0: neither. In a final sequence XORed with a mark, a multiple of 4, that has to match.
    uint64_t shares;
    int64_t sizes[LIMIT_DIMS];
} collective_signature;

enum { SIGNATURE_TEXT_MAX = 512, SIGNATURE_DETAIL_MAX = 192 };

// Whether elements of all members are combined: all_reduce, reduce, reduce_scatter.
bool signature_is_reduction(const collective_signature *x);

// Whether the inputs are sparse by rows.
bool signature_is_rows(const collective_signature *x);

// Whether the signatures of two members for one collective match.
bool signature_matches(const collective_signature *a, const collective_signature *b);

// |past|, a hash of the earlier calls of a member, extended by |x|: equal for signatures that match.
uint64_t signature_add(uint64_t past, const collective_signature *x);

// "all_reduce sum f32 10x20 (train.c:40)", into SIGNATURE_TEXT_MAX bytes. |origin| may be "". |detail|: the text that
// |shares| is a hash of, "sizes 1+2+1", at most SIGNATURE_DETAIL_MAX bytes; NULL: unknown.
void signature_text(const collective_signature *x, const char *detail, const char *origin,
                    char *out);

// As in docs/protocol/groups.md, without the fields before and after it. |holds| is written with it.
void signature_write(bytes *head, const collective_signature *x, bool holds);
// Fails |in|, or returns false, if it is not valid in a group of |member_count|.
bool signature_read(reader *in, int member_count, collective_signature *out, bool *out_holds);

const char *reduce_op_name(int op);  // "sum"

#endif
