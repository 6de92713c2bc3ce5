//! The directive `grpc_errors`.

use freerun_conf::settings;

settings! {
    /// Errors of this server's own, in the form that clients of gRPC expect.
    #[module = "grpc_errors"]
    pub struct GrpcErrorSettings {
        /// Whether a call of gRPC gets an error in the terms of gRPC instead of a built-in page. A request is such a
        /// call if its `Content-Type` is `application/grpc` or begins with `application/grpc+`, and if it came over
        /// HTTP/2 or later.
        ///
        /// The response has the status 200, no body, and the fields `grpc-status` and `grpc-message`, for example `14`
        /// and `502 Bad Gateway`. It makes no difference which module has found the error: `limit_req`, `auth_basic`
        /// and `return 403` are reported like a server behind `grpc_pass` that does not answer. An error that has an
        /// `error_page` is answered by that page. `$status` in the log is the error's status (502); `add_header` and
        /// `error_page` go by that status, too.
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
        /// Clients of gRPC make the same of the statuses of HTTP by themselves, except for 504, which they take for
        /// UNAVAILABLE. A call that the server may have done must not look like a call that it has not done. With
        /// `off`, the client gets the page that nginx would send.
        grpc_errors: bool = "on", in HTTP | SERVER | LOCATION, fidelity = Own;
    }
}
