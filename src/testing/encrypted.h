// A transport for tests whose streams encrypt the streams of another transport, by net/tls/tls.h, with the same key at
// both ends.
//
// Ownership, threads: one such transport exists in a process at a time; it is opened and closed with the loop lock of
// its env held.
#ifndef TESTING_ENCRYPTED_H
#define TESTING_ENCRYPTED_H

#include "net/tls/tls.h"

extern const transport encrypted_transport;

void encrypted_open(env *e, const transport *over);  // fails its test
void encrypted_close(void);

// A secret of the keys whose numbers |digits| has: "ab" has two, the first is a.
secret *encrypted_secret(const char *digits);

// A protection with them, of a worker of this incarnation, whose name is "w" and it, and its rank it.
protection encrypted_worker(const char *digits, uint64_t incarnation);

// The same with a certificate of |names|, "w1=1,w2=2", by the CA named |ca|, one character; it trusts the CAs
// named by the characters of |trusted|, and no other one.
protection encrypted_certified(char ca, const char *trusted, const char *names,
                               uint64_t incarnation);

#endif
