#include "holders.h"

#include <tuple>

namespace {

// A Python object that a reference kept is released with the GIL.
void release_value(c10::intrusive_ptr<rpc::RRef> rref) {
    if (!rref || !rref->isPyObj()) return;
    pybind11::gil_scoped_acquire gil;
    rref.reset();
}

}  // namespace

Holders::Reference Holders::reference_of(rpc::worker_id_t worker, rpc::ForkMessageBase &message) {
    return { worker,
             { message.rrefId().createdOn_, message.rrefId().localId_ },
             { message.forkId().createdOn_, message.forkId().localId_ } };
}

void Holders::note(rpc::worker_id_t worker, const rpc::Message &message) {
    bool is_held = true;
    std::unique_ptr<rpc::ForkMessageBase> read;
    switch (message.type()) {
    case rpc::MessageType::REMOTE_RET: read = rpc::RemoteRet::fromMessage(message); break;
    case rpc::MessageType::RREF_FORK_REQUEST:
        read = rpc::RRefForkRequest::fromMessage(message);
        break;
    case rpc::MessageType::RREF_USER_DELETE:
        read = rpc::RRefUserDelete::fromMessage(message);
        is_held = false;
        break;
    default: return;
    }
    std::lock_guard<std::mutex> lock(mutex_);
    if (is_held)
        references_.insert(reference_of(worker, *read));
    else
        references_.erase(reference_of(worker, *read));
}

std::set<Holders::Reference> Holders::take(rpc::worker_id_t worker) {
    std::set<Reference> out;
    std::lock_guard<std::mutex> lock(mutex_);
    for (auto at = references_.begin(); at != references_.end();)
        if (at->worker == worker)
            out.insert(references_.extract(at++));
        else
            at++;
    return out;
}

void Holders::release(rpc::worker_id_t worker) {
    for (const auto &held : take(worker))
        release_value(rpc::RRefContext::getInstance().delForkOfOwner(
            rpc::RRefId(held.value.first, held.value.second),
            rpc::ForkId(held.fork.first, held.fork.second)));
}
