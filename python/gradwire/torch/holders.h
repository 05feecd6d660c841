// Which workers hold references to values of this worker. When a worker is lost, its references are deleted in its
// place, since it can no longer send the message that deletes them.
//
// Known are references that another worker has made by remote or has got from a third worker. Those that this worker
// itself has passed in an argument or a result are not: torch keeps no record of to whom.
//
// Threads: any, without the GIL.
#ifndef PYTHON_TORCH_HOLDERS_H
#define PYTHON_TORCH_HOLDERS_H

#include <mutex>
#include <set>
#include <utility>

#include "compat.h"

class Holders {
  public:
    // Reads a message of |worker| to this worker, or the reply to such a message.
    void note(rpc::worker_id_t worker, const rpc::Message &message);

    // Deletes the references of |worker|.
    void release(rpc::worker_id_t worker);

  private:
    using Id = std::pair<rpc::worker_id_t, rpc::local_id_t>;
    struct Reference {
        rpc::worker_id_t worker;
        Id value, fork;

        bool operator<(const Reference &other) const {
            return std::tie(worker, value, fork) < std::tie(other.worker, other.value, other.fork);
        }
    };

    static Reference reference_of(rpc::worker_id_t worker, rpc::ForkMessageBase &message);
    std::set<Reference> take(rpc::worker_id_t worker);

    std::mutex mutex_;
    std::set<Reference> references_;
};

#endif
