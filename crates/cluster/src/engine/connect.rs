//! Connecting to the engine: directly, or by sentinels that know where the primary is.

use std::collections::HashMap;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Client, ClientTlsConfig, ConnectionAddr, IntoConnectionInfo, ProtocolVersion,
    RedisConnectionInfo, TlsCertificates, Value, cmd,
};

use super::{ANSWER, EngineError, EngineLink, reply};
use crate::address::{EngineHosts, HostPort};
use crate::settings::EngineSettings;

/// The longest time for a connection, with TLS and the password.
const CONNECT: Duration = Duration::from_secs(3);

/// The longest time for the answer of one sentinel. Another one is asked then.
const SENTINEL: Duration = Duration::from_secs(1);

/// The way to one server.
enum ServerAddress<'a> {
    Tcp(&'a str, u16),
    Unix(&'a str),
}

/// Connects to the primary, twice, and loads the scripts.
///
/// # Errors
/// Nobody can be reached, or is no primary, or refuses.
pub(crate) async fn connect(settings: &EngineSettings) -> Result<EngineLink, EngineError> {
    match &settings.address.hosts {
        EngineHosts::Single(host, port) => connect_to(settings, &ServerAddress::Tcp(host, *port)).await,
        EngineHosts::Unix(path) => connect_to(settings, &ServerAddress::Unix(path)).await,
        EngineHosts::Sentinels { name, sentinels } => connect_to_primary(settings, name, sentinels).await,
    }
}

/// Asks the sentinels, one after the other, where the primary is, until one of them names a server that is one. A sentinel that
/// was cut off from the others may name a primary of the past.
async fn connect_to_primary(
    settings: &EngineSettings,
    name: &str,
    sentinels: &[(String, u16)],
) -> Result<EngineLink, EngineError> {
    let mut last = EngineError::Failed("there is no sentinel".to_owned());
    for (host, port) in sentinels {
        let connected = async {
            let asked = tokio::time::timeout(SENTINEL, ask_sentinel(settings, name, host, *port)).await;
            let (host, port) = asked.unwrap_or(Err(EngineError::Failed("no answer in time".to_owned())))?;
            let mut link = connect_to(settings, &ServerAddress::Tcp(&host, port)).await?;
            link.replication().await?;
            Ok::<EngineLink, EngineError>(link)
        };
        match connected.await {
            Ok(link) => return Ok(link),
            Err(error) => last = EngineError::Failed(format!("by sentinel {}: {error}", HostPort(host, *port))),
        }
    }
    Err(last)
}

/// Connects to a server, twice, and loads the scripts.
async fn connect_to(settings: &EngineSettings, address: &ServerAddress<'_>) -> Result<EngineLink, EngineError> {
    let peer = match address {
        ServerAddress::Tcp(host, port) => HostPort(host, *port).to_string(),
        ServerAddress::Unix(path) => format!("unix:{path}"),
    };
    let client = client(settings, address, true)?;
    let commands = open(&client).await?;
    let reader = open(&client).await?;
    let mut link = EngineLink { commands, reader, scripts: HashMap::new(), peer };
    link.load_scripts().await?;
    Ok(link)
}

async fn ask_sentinel(
    settings: &EngineSettings,
    name: &str,
    host: &str,
    port: u16,
) -> Result<(String, u16), EngineError> {
    let mut sentinel = open(&client(settings, &ServerAddress::Tcp(host, port), false)?).await?;
    let mut command = cmd("SENTINEL");
    command.arg("get-master-addr-by-name").arg(name);
    let answer = super::ask(&mut sentinel, &command, ANSWER).await?;
    if matches!(answer, Value::Nil) {
        return Err(EngineError::Failed(format!("it knows no primary \"{name}\"")));
    }
    let parts: Option<Vec<String>> = reply::list(answer).and_then(|parts| parts.into_iter().map(reply::text).collect());
    match parts.as_deref() {
        Some([host, port]) => Ok((host.clone(), port.parse().map_err(|_| reply::odd("SENTINEL"))?)),
        _ => Err(reply::odd("SENTINEL")),
    }
}

/// The library's client of a server; a sentinel has no user, password or database of the engine's.
fn client(settings: &EngineSettings, address: &ServerAddress<'_>, is_engine: bool) -> Result<Client, EngineError> {
    let tls = &settings.tls;
    let address = match *address {
        ServerAddress::Unix(path) => ConnectionAddr::Unix(path.into()),
        ServerAddress::Tcp(host, port) if settings.address.is_tls => {
            ConnectionAddr::TcpTls { host: host.to_owned(), port, insecure: tls.accepts_any, tls_params: None }
        }
        ServerAddress::Tcp(host, port) => ConnectionAddr::Tcp(host.to_owned(), port),
    };
    let mut about = RedisConnectionInfo::default().set_protocol(ProtocolVersion::RESP3).set_skip_set_lib_name();
    if is_engine {
        about = about.set_db(settings.address.database);
        if let Some(user) = &settings.user {
            about = about.set_username(user);
        }
        if let Some(password) = &settings.password {
            about = about.set_password(freerun_conf::text_of(password.bytes()));
        }
    }
    let info = address.into_connection_info()?.set_redis_settings(about);
    if !settings.address.is_tls {
        return Ok(Client::open(info)?);
    }
    let own = tls.own.as_ref().map(|(certificate, key)| ClientTlsConfig {
        client_cert: certificate.bytes().to_vec(),
        client_key: key.bytes().to_vec(),
    });
    let trusted = tls.trusted.as_ref().map(|trusted| trusted.bytes().to_vec());
    Ok(Client::build_with_tls(info, TlsCertificates { client_tls: own, root_cert: trusted })?)
}

async fn open(client: &Client) -> Result<MultiplexedConnection, EngineError> {
    // Each command has its own limit, so the library needs none.
    let config = AsyncConnectionConfig::new().set_connection_timeout(Some(CONNECT)).set_response_timeout(None);
    let opened = tokio::time::timeout(CONNECT, client.get_multiplexed_async_connection_with_config(&config)).await;
    Ok(opened.map_err(|_| EngineError::Silent)??)
}
