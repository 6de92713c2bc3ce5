//! The nginx.conf language: parser, directive tables, settings, diagnostics, reference printer.
