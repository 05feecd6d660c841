#include "net/tls/protection.h"

#include "base/status.h"

void protection_fini(protection *p) {
    secret_close(p->secret);
    *p = (protection){ 0 };
}

gw_status protection_allows_beyond(const protection *p, const char *what, const char *address,
                                   gw_error *error) {
    if (p && (p->insecure || p->secret)) return GW_OK;
    return error_set(
        error, GW_UNSUPPORTED,
        "%s is \"%s\", which is not this machine: give all workers the file of a key "
        "(gradwire key > job.key; gradwire run --key job.key, or GW_KEY_FILE=job.key), "
        "use addresses of this machine alone (127.0.0.1), or use --insecure "
        "(GW_INSECURE=1) if every machine on the network may read and change all messages",
        what, address);
}
