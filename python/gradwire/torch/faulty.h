// An agent that fails and delays messages, for PyTorch's tests of faults. As torch's own, it fails the first attempts to
// send each message of some types, and delays those of other types by some time, which counts towards the timeout.
#ifndef PYTHON_TORCH_FAULTY_H
#define PYTHON_TORCH_FAULTY_H

#include <map>
#include <set>

#include "agent.h"

class FaultyAgent : public Agent {
  public:
    // Types of messages as numbers; delays in seconds.
    FaultyAgent(std::vector<std::string> names, int rank, float timeout_s, int threads,
                int fail_count, std::set<int> failing, std::map<int, float> delays);

    FuturePtr send(const rpc::WorkerInfo &to, MessagePtr message, const float timeout_s,
                   const rpc::DeviceMap &device_map) override;

  private:
    bool must_fail(const rpc::Message &message);
    FuturePtr send_later(const rpc::WorkerInfo &to, MessagePtr message, float timeout_s,
                         float delay_s);

    int fail_count_;
    std::set<int> failing_;
    std::map<int, float> delays_;
    std::mutex mutex_;
    std::map<std::vector<char>, int> attempts_;  // by payload
};

#endif
