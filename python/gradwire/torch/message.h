// Messages of torch as values of one call of the library: type, id, payload; if there are tensors, also a description
// of them and their storages. A storage is a tensor of bytes, which is sent from where it is.
//
// Threads: any, without the GIL.
#ifndef PYTHON_TORCH_MESSAGE_H
#define PYTHON_TORCH_MESSAGE_H

#include <string>
#include <vector>

#include <gradwire.h>
#include <gradwire/binding.h>

#include "compat.h"

// The values of a message, for a call or a reply. They live as long as this object and |s|. Throws c10::Error for a
// tensor that is not in the memory of the CPU.
class MessageValues {
  public:
    MessageValues(gw_scope *s, rpc::Message &message);
    gw_values get() const;

  private:
    void add_payload(gw_scope *s, rpc::Message &message);
    void add_tensors(gw_scope *s, const std::vector<at::Tensor> &tensors);

    std::string description_;
    std::vector<gw_value> values_;
};

// A message that has arrived, and is not decoded yet.
class Parcel {
  public:
    // Throws std::runtime_error if the values are not those of a message. Keeps the tensors, and copies the rest.
    explicit Parcel(gw_values values);
    Parcel(Parcel &&other) noexcept = default;
    ~Parcel();

    rpc::MessageType type() const {
        return type_;
    }
    int64_t id() const {
        return id_;
    }

    // Decodes the message. Its tensors use the memory in which they have arrived. Throws an exception if the
    // description is malformed, or does not fit the storages.
    MessagePtr open(gw_scope *s);

  private:
    at::DataPtr read_storage(gw_scope *s, const std::string &name);
    void check_storage(const at::Tensor &t) const;
    std::vector<at::Tensor> read_tensors(gw_scope *s);

    rpc::MessageType type_;
    int64_t id_;
    std::vector<char> payload_;
    std::string description_;
    std::vector<gw_tensor *> storages_;
    std::vector<std::pair<const void *, size_t>> sizes_;  // of the storages that were read
};

#endif
