// Calls with large tensors over gRPC C++, as bench/bulk.c makes them: prints "case median_us min_us".
//
//     make -C bench/peers/grpc && build/grpc/bulk [--calls N] [case...]
//     build/grpc/bulk --listen HOST:PORT, and on another host build/grpc/bulk --connect HOST:PORT [--calls N] [case...]
//
// Two processes and a Unix socket, or TCP. Numbers are sent as one field of bytes, copied in and out of messages once on each side;
// the server adds in place. Nothing limits the size of a message.
#include "bulk.grpc.pb.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <grpcpp/grpcpp.h>
#include <string>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace {

class Server final : public bulk::Bulk::Service {
    grpc::Status Identity(grpc::ServerContext *, const bulk::Numbers *request,
                          bulk::Numbers *reply) override {
        reply->set_floats(request->floats());
        return grpc::Status::OK;
    }

    grpc::Status Ops200(grpc::ServerContext *, const bulk::Numbers *request,
                        bulk::Numbers *reply) override {
        reply->set_floats(request->floats());
        std::string *bytes = reply->mutable_floats();
        float *x = reinterpret_cast<float *>(bytes->data());
        size_t count = bytes->size() / sizeof *x;
        for (int k = 0; k < 200; k++)
            for (size_t i = 0; i < count; i++) x[i] += 1;
        return grpc::Status::OK;
    }
};

struct Case {
    const char *name;
    bool adds;
    size_t floats;
};

const Case cases[] = {
    { "rpc.identity_4MB", false, size_t{ 1 } << 20 },
    { "rpc.identity_400MB", false, size_t{ 100 } << 20 },
    { "rpc.ops200_4MB", true, size_t{ 1 } << 20 },
    { "rpc.ops200_400MB", true, size_t{ 100 } << 20 },
};

double now_us() {
    return std::chrono::duration<double, std::micro>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

void serve(const std::string &address) {
    Server server;
    grpc::ServerBuilder builder;
    builder.AddListeningPort(address, grpc::InsecureServerCredentials());
    builder.RegisterService(&server);
    builder.SetMaxReceiveMessageSize(-1);
    builder.SetMaxSendMessageSize(-1);
    std::unique_ptr<grpc::Server> running = builder.BuildAndStart();
    if (!running) exit(1);
    running->Wait();
}

bool measure(bulk::Bulk::Stub &stub, const Case &c, int calls) {
    std::vector<float> x(c.floats, 1), y(c.floats);
    std::vector<double> times;
    bulk::Numbers request, reply;
    for (int i = 0; i <= calls; i++) {
        grpc::ClientContext context;
        double start = now_us();
        request.set_floats(x.data(), c.floats * sizeof(float));
        grpc::Status status = c.adds ? stub.Ops200(&context, request, &reply)
                                     : stub.Identity(&context, request, &reply);
        if (!status.ok()) {
            fprintf(stderr, "%s: %s\n", c.name, status.error_message().c_str());
            return false;
        }
        memcpy(y.data(), reply.floats().data(), c.floats * sizeof(float));
        if (i > 0) times.push_back(now_us() - start);
    }
    if (y[0] != (c.adds ? 201 : 1)) return false;
    std::sort(times.begin(), times.end());
    printf("%s %.2f %.2f\n", c.name, times[times.size() / 2], times[0]);
    fflush(stdout);
    return true;
}

bool call(const std::string &address, int calls, char **names, int count) {
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(-1);
    arguments.SetMaxSendMessageSize(-1);
    auto channel =
        grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
    bool all_succeeded =
        channel->WaitForConnected(std::chrono::system_clock::now() + std::chrono::seconds(20));
    auto stub = bulk::Bulk::NewStub(channel);
    for (const Case &c : cases) {
        bool wanted = count == 0;
        for (int i = 0; i < count; i++) wanted = wanted || !strcmp(names[i], c.name);
        if (all_succeeded && wanted) all_succeeded = measure(*stub, c, calls);
    }
    return all_succeeded;
}

// Runs the server in a child process.
bool call_child(int calls, char **names, int count) {
    char folder[] = "/tmp/bulk.XXXXXX";
    if (!mkdtemp(folder)) return false;
    std::string path = std::string(folder) + "/socket", address = "unix:" + path;
    pid_t server = fork();  // before gRPC has threads
    if (server == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        serve(address);
        _exit(0);
    }
    bool all_succeeded = call(address, calls, names, count);
    kill(server, SIGKILL);
    waitpid(server, nullptr, 0);
    unlink(path.c_str());
    rmdir(folder);
    return all_succeeded;
}

}  // namespace

int main(int argc, char **argv) {
    int calls = 10, first = 1;
    std::string listens, connects;
    for (; first + 1 < argc && !strncmp(argv[first], "--", 2); first += 2) {
        std::string name = argv[first], value = argv[first + 1];
        if (name == "--calls") calls = static_cast<int>(strtol(value.c_str(), nullptr, 10));
        if (name == "--listen") listens = value;
        if (name == "--connect") connects = value;
    }
    char **names = argv + first;
    int count = argc - first;
    if (!listens.empty()) {
        serve(listens);
        return 0;
    }
    bool all_succeeded =
        connects.empty() ? call_child(calls, names, count) : call(connects, calls, names, count);
    return all_succeeded ? 0 : 1;
}
