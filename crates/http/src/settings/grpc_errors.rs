//! The directive `grpc_errors`.

use freerun_conf::settings;

settings! {
    /// Errors of this server's own, as clients of gRPC are told of them.
    #[module = "grpc_errors"]
    pub struct GrpcErrorSettings {
        /// Whether an error that would be answered with a built-in page is told in the terms of gRPC, if the request is a
        /// call of gRPC: its `Content-Type` is `application/grpc` or begins with `application/grpc+`, and it came over HTTP/2 or
        /// later.
        ///
        /// The response has the status 200, no body, and the fields `grpc-status` and `grpc-message`, for example `14` and `502
        /// Bad Gateway`. It makes no difference which module has found the error: `limit_req`, `auth_basic` and `return 403` are
        /// told in the same way as a server behind `grpc_pass` that does not answer. An error that has an `error_page` is
        /// answered by that page. `$status` in the log is that of the error (502), and so is the status that `add_header` and
        /// `error_page` go by.
        ///
        /// | status of the error | `grpc-status` |
        /// |---|---|
        /// | 400 | 13 (INTERNAL) |
        /// | 401 | 16 (UNAUTHENTICATED) |
        /// | 403 | 7 (PERMISSION_DENIED) |
        /// | 404 | 12 (UNIMPLEMENTED) |
        /// | 429, 502, 503 | 14 (UNAVAILABLE) |
        /// | 504 | 4 (DEADLINE_EXCEEDED) |
        /// | others | 2 (UNKNOWN) |
        ///
        /// Clients of gRPC make the same of the statuses of HTTP by themselves, except for 504, which they take for UNAVAILABLE:
        /// a call that the server may have done must not look like one that it has not. With `off`, the client gets the page
        /// that nginx would send.
        grpc_errors: bool = "on", in HTTP | SERVER | LOCATION, fidelity = Own;
    }
}
