//! The text that `-h` and `freerun serve --help` print.

use super::serve::{SERVE_ADDRESS, SERVE_TLS_PORT};
use crate::paths;

/// The text that `-h` prints.
pub fn program() -> String {
    format!(
        "\
Usage: freerun [-?hvVtTq] [--strict] [-s signal] [-p prefix]
               [-e filename] [-c filename] [-g directives]
       freerun serve [DIR] [--listen ADDR] [--port PORT] [--tls internal | NAME] [--quiet]
                     [--hidden] [--follow-links] [--host NAME]
       freerun migrate [-c filename] [-p prefix] [-g directives] [--quiet] [--json]
       freerun explain DIRECTIVE | '$variable' | WORD
       freerun reference [--check] DIR

Options:
  -?,-h         : this help
  -v            : show version and exit
  -V            : show version and configure options then exit
  -t            : test configuration and exit
  -T            : test configuration, dump it and exit
  --strict      : with -t or -T: a warning about the configuration, such as a name without an
                  address, is an error
  -q            : suppress non-error messages during configuration testing
  -s signal     : send signal to a master process: stop, quit, reopen, reload
  -p prefix     : set prefix path (default: {}/)
  -e filename   : set error log file (default: {})
  -c filename   : set configuration file (default: {})
  -g directives : set global directives out of configuration file

Commands, of which \"freerun COMMAND --help\" tells more:
  serve         : serve a folder without a configuration file
  migrate       : say what a configuration of nginx would be here, and start nothing
  explain       : print what the reference says of a directive, a variable or a word
  reference     : write the reference of all directives
",
        paths::PREFIX,
        paths::ERROR_LOG_PATH,
        paths::CONF_PATH,
    )
}

/// The text of `freerun serve --help`.
pub fn serve() -> String {
    format!(
        "\
freerun serve [DIR] [--listen ADDR] [--port PORT] [--tls internal | --tls NAME[,NAME...]] [--quiet]
              [--hidden] [--follow-links] [--host NAME[,NAME...]]
  serves the files of DIR (default: the current folder) without a configuration file, and lists
  folders that have no index.html; every request is shown
  --listen ADDR        : ADDRESS:PORT, ADDRESS or PORT (default: {}, with --tls internal
                         port {}, with --tls NAME port 443 of all IPv4 addresses)
  --port PORT          : the port alone
  --quiet              : do not show requests
  --hidden             : serve and list files and folders whose names begin with a dot, too; without
                         it there are none but .well-known
  --follow-links       : follow symbolic links, out of DIR as well; without it they are refused (403)
  --host NAME          : a further name by which clients may ask. Without it only IP addresses,
                         localhost, the machine's name and the names of --tls are answered, so that
                         no web page can read the files by letting its own name stand for this machine
  --tls internal       : over https, with a certificate of a local authority, which is kept in
                         $XDG_DATA_HOME/freerun or ~/.local/share/freerun
  --tls NAME           : over https, with a certificate for NAME from Let's Encrypt or another CA
                         that speaks ACME; it is kept in the same folder and renewed in time.
                         By using this you agree to the terms of service of the CA
  --http ADDR          : with --tls NAME: where the CA looks at challenges, and plain HTTP is sent
                         to https (default: port 80); off: the CA looks at port 443
  --email ADDRESS      : with --tls NAME: where the CA can reach you
  --acme-directory URL : with --tls NAME: the directory of the CA (default: Let's Encrypt's)
  --acme-ca FILE       : with --tls NAME: the authorities by which the CA's server is verified
",
        SERVE_ADDRESS, SERVE_TLS_PORT
    )
}
