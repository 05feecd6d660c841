#include "message.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <stdexcept>

#include "threads.h"

namespace {

constexpr size_t COPY_MAX = 4096;  // smaller payloads and storages are copied into the message

// Deletes an object that the library has kept until it has sent the bytes of it. This may need the GIL, for which the
// library's thread must not wait: a thread that holds the GIL may wait for the library in send.
template <class T> void delete_object(void *object) {
    std::shared_ptr<T> owned(static_cast<T *>(object));
    Threads::get().run_completion([owned] {});
}

void release_storage(void *tensor) {
    gw_release_handle(static_cast<gw_handle *>(tensor));
}

template <class T> gw_value lend(gw_scope *s, void *bytes, size_t size, T owner) {
    int64_t sizes[] = { static_cast<int64_t>(size) };
    return gw_value_of_tensor(gw_from_blob(s, GW_U8, bytes, gw_shape{ 1, sizes }, delete_object<T>,
                                           new T(std::move(owner))));
}

gw_value value_of_storage(gw_scope *s, const at::Tensor &t) {
    size_t size = compat_size(t.storage());
    void *bytes = compat_data(t.storage());
    if (size >= COPY_MAX) return lend(s, bytes, size, t);
    int64_t sizes[] = { static_cast<int64_t>(size) };
    return gw_value_of_tensor(gw_from_with(s, GW_U8, bytes, gw_shape{ 1, sizes }));
}

// torch's pickler drops the bits of views that conjugate or negate.
at::Tensor sendable(const at::Tensor &t) {
    TORCH_CHECK(t.device().is_cpu(), "a tensor on the device ", t.device(),
                " cannot be sent: the backend gradwire carries CPU tensors only");
    return t.is_sparse() ? t : t.resolve_conj().resolve_neg();
}

std::vector<char> bytes_of(const gw_value &v) {
    const void *bytes = v.kind == GW_TENSOR ? gw_data(v.as.tensor) : v.as.bytes;
    size_t size = v.kind == GW_TENSOR ? static_cast<size_t>(gw_numel(v.as.tensor)) : v.size;
    auto begin = static_cast<const char *>(bytes);
    return size ? std::vector<char>(begin, begin + size) : std::vector<char>();
}

bool has_bytes(const gw_value &v) {
    return v.kind == GW_BYTES || (v.kind == GW_TENSOR && gw_dtype_of(v.as.tensor) == GW_U8 &&
                                  gw_is_contiguous(v.as.tensor));
}

bool is_type(int64_t type) {
    return type > 0 && type <= (rpc::REQUEST_TYPE | rpc::RESPONSE_TYPE | 0xff);
}

bool is_message(gw_values v) {
    if (v.count < 3 || v.items[0].kind != GW_INT || v.items[1].kind != GW_INT) return false;
    if (!is_type(v.items[0].as.integer) || !has_bytes(v.items[2]) ||
        (v.count > 3 && v.items[3].kind != GW_BYTES))
        return false;
    return std::all_of(v.items + std::min(v.count, 4), v.items + v.count,
                       [](const gw_value &x) { return x.kind == GW_TENSOR && has_bytes(x); });
}

}  // namespace

// ---- Encoding -------------------------------------------------------------------------------------
MessageValues::MessageValues(gw_scope *s, rpc::Message &message) {
    values_.reserve(4 + message.tensors().size());
    values_.push_back(gw_value_of_int(message.type()));
    values_.push_back(gw_value_of_int(message.id()));
    add_payload(s, message);
    if (!message.tensors().empty()) add_tensors(s, message.tensors());
}

gw_values MessageValues::get() const {
    return { static_cast<int>(values_.size()), values_.data() };
}

void MessageValues::add_payload(gw_scope *s, rpc::Message &message) {
    auto &payload = message.payload();
    if (payload.size() < COPY_MAX) {
        values_.push_back(gw_value_of_bytes(payload.data() ? payload.data() : "", payload.size()));
        return;
    }
    auto owner = c10::intrusive_ptr<rpc::Message>::reclaim_copy(&message);
    values_.push_back(lend(s, payload.data(), payload.size(), std::move(owner)));
}

void MessageValues::add_tensors(gw_scope *s, const std::vector<at::Tensor> &tensors) {
    std::vector<at::Tensor> sent;
    std::transform(tensors.begin(), tensors.end(), std::back_inserter(sent), sendable);
    torch::jit::Pickler pickler(
        [this](const char *bytes, size_t size) { description_.append(bytes, size); }, nullptr,
        nullptr, nullptr, nullptr, false);
    pickler.protocol();
    pickler.pushIValue(rpc::cloneSparseTensors(sent));
    pickler.stop();
    values_.push_back(gw_value_of_bytes(description_.data(), description_.size()));
    for (const auto &t : pickler.tensorData()) values_.push_back(value_of_storage(s, t));
}

// ---- Decoding -------------------------------------------------------------------------------------
Parcel::Parcel(gw_values values) {
    if (!is_message(values)) throw std::runtime_error("a malformed message of torch");
    type_ = static_cast<rpc::MessageType>(values.items[0].as.integer);
    id_ = values.items[1].as.integer;
    payload_ = bytes_of(values.items[2]);
    if (values.count > 3)
        description_.assign(static_cast<const char *>(values.items[3].as.bytes),
                            values.items[3].size);
    for (int i = 4; i < values.count; i++)
        storages_.push_back(gw_retain(values.items[i].as.tensor));
}

Parcel::~Parcel() {
    for (gw_tensor *storage : storages_) gw_release(storage);
}

MessagePtr Parcel::open(gw_scope *s) {
    std::vector<at::Tensor> tensors;
    if (!description_.empty()) tensors = read_tensors(s);
    return c10::make_intrusive<rpc::Message>(std::move(payload_), std::move(tensors), type_, id_);
}

// What another tensor or message holds as well is copied once.
at::DataPtr Parcel::read_storage(gw_scope *s, const std::string &name) {
    size_t index = std::stoul(name);
    if (index >= storages_.size())
        throw std::runtime_error("a tensor without a storage in a message of torch");
    gw_tensor *storage = storages_[index];
    void *bytes = gw_data_for_write(s, storage);
    if (!gw_ok(s)) throw std::runtime_error(gw_scope_error(s)->text);
    sizes_.emplace_back(bytes, static_cast<size_t>(gw_numel(storage)));
    return at::DataPtr(bytes, gw_retain(storage), release_storage, at::kCPU);
}

void Parcel::check_storage(const at::Tensor &t) const {
    if (t.is_sparse()) {
        check_storage(t._indices());
        check_storage(t._values());
        return;
    }
    if (!t.has_storage()) return;
    const void *bytes = compat_data(t.storage());
    size_t size = compat_size(t.storage());
    bool fits = std::any_of(sizes_.begin(), sizes_.end(),
                            [&](const auto &x) { return x.first == bytes && size <= x.second; });
    if (size > 0 && !fits)
        throw std::runtime_error("a tensor beyond its storage in a message of torch");
}

std::vector<at::Tensor> Parcel::read_tensors(gw_scope *s) {
    size_t at = 0;
    auto read = [&](char *out, size_t size) {
        size = std::min(size, description_.size() - at);
        std::memcpy(out, description_.data() + at, size);
        at += size;
        return size;
    };
    torch::jit::Unpickler unpickler(
        read, nullptr, nullptr, [&](const std::string &name) { return read_storage(s, name); },
        c10::optional<at::Device>(at::kCPU), false);
    std::vector<at::Tensor> tensors;
    for (const at::Tensor &t : unpickler.parse_ivalue().toTensorVector()) {
        check_storage(t);
        tensors.push_back(t);
    }
    return tensors;
}
