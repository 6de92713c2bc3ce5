//! The same configuration and bytes to nginx and to freerun: what comes back must agree, but for the differences listed.
