// The long options of gradwire run that have values, by the file that reads the values.
#ifndef GRADWIRE_OPTION_H
#define GRADWIRE_OPTION_H

typedef enum run_option {
    // options/restart_options.h
    OPTION_ON_FAILURE = 256,  // behind all characters, which are the short options
    OPTION_MAX_RESTARTS,
    OPTION_MIN_SUCCESS,
    OPTION_RESTART_WINDOW,
    OPTION_BACKOFF,
    OPTION_REDIRECTS,
    OPTION_TEE,
    OPTION_LOG_DIR,
    OPTION_CHECKPOINT_DIR,
    OPTION_LOCAL_RANKS_FILTER,
    RESTART_OPTIONS_END,
    // options/rendezvous.h
    OPTION_NNODES = RESTART_OPTIONS_END,
    OPTION_NODE_RANK,
    OPTION_STANDALONE,
    OPTION_MASTER_ADDR,
    OPTION_RDZV_BACKEND,
    OPTION_RDZV_CONF,
    OPTION_RDZV_ENDPOINT,
    OPTION_RDZV_ID,
    OPTION_RDZV_TIMEOUT,
    RENDEZVOUS_OPTIONS_END,
    // options/observe_options.h
    OPTION_FLIGHT_DIR = RENDEZVOUS_OPTIONS_END,
    OPTION_FORWARD_SIGNALS,
    OPTION_HANG_AFTER,
    OPTION_MONITOR,
    OPTION_METRICS_LISTEN,
    OPTION_METRICS_TOKEN_FILE,
    OPTION_TRACE,
    OBSERVE_OPTIONS_END,
    // options/torchrun.h
    OPTION_TORCHRUN = OBSERVE_OPTIONS_END,
} run_option;

#endif
