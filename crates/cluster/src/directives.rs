//! The directives of the main level that name the engine, and their values.

use std::sync::Arc;

use freerun_conf::{Cx, Node, Problem, Setting, SettingsSet, Shape, Value, Word, settings};
use freerun_runtime::log::Errno;
use freerun_serve::configuration::engine_declared::{EngineDeclared, SecretDeclared};
use freerun_serve::configuration::parts::Parts;
use freerun_serve::configuration::zones::ZoneTable;
use freerun_serve::tls::files::{ConfigurationFiles, Secret, full_path};

use crate::address::EngineAddress;
use crate::cluster::Cluster;
use crate::seal::MIN_SECRET;
use crate::settings::{EngineSettings, EngineTls};

/// The beginning of all names in the engine without `prefix=`.
const PREFIX: &str = "freerun";

/// The longest prefix in bytes.
const MAX_PREFIX: usize = 64;

/// The largest file of a secret or a password in bytes.
const MAX_SECRET: usize = 4096;

settings! {
    /// State that several machines share through a server of the Redis protocol.
    #[module = "zone_sync"]
    pub struct ZoneSyncSettings {
        /// The engine through which several machines share what has the parameter `sync`: a server of Redis from 7.0 on, or of
        /// Valkey. The address is `redis://host[:port]`, `rediss://…` for TLS, or `unix:path`; a number of a database may follow
        /// (`redis://host:6379/2`).
        ///
        /// A thread of its own talks to the engine. Requests never wait for it: they are judged by what is in memory. While the
        /// engine is away, each machine goes on alone, and catches up afterwards.
        ///
        /// | parameter | |
        /// |---|---|
        /// | `topology=sentinel:NAME` | the hosts, separated by commas, are sentinels, which know where the primary `NAME` is |
        /// | `prefix=TEXT` | all names in the engine begin with this, so that several clusters can share an engine; by default `freerun` |
        /// | `user=NAME` | the user; without it, the engine's default user |
        /// | `password_file=FILE` | a file with the password in its first line |
        zone_sync_engine: Option<EngineSetting>, in MAIN, fidelity = Own;
        /// A file with a secret of at least 16 bytes, the same on all machines. With it, keys and
        /// values in the engine are encrypted (AES-256-GCM) or hashed. Names of zones and hosts, and lifetimes, are not. A machine with another secret
        /// is kept out.
        zone_sync_secret: Option<SecretFile>, in MAIN, fidelity = Own;
        /// A file with the certificates of the authorities that verify the engine. By default these are the system's.
        zone_sync_ssl_trusted_certificate: Option<PemFile>, in MAIN,
            fidelity = Differs("it is for the connection to the engine, at the main level");
        /// A file with the certificate that this machine shows to the engine.
        zone_sync_ssl_certificate: Option<PemFile>, in MAIN,
            fidelity = Differs("it is for the connection to the engine, at the main level");
        /// The key of `zone_sync_ssl_certificate`.
        zone_sync_ssl_certificate_key: Option<PemFile>, in MAIN,
            fidelity = Differs("it is for the connection to the engine, at the main level");
        /// Whether the certificate of the engine is verified.
        zone_sync_ssl_verify: bool = "on", in MAIN,
            fidelity = Differs("it is on by default");
    }
}

/// The value of `zone_sync_engine`.
#[derive(Debug, Clone)]
pub struct EngineSetting {
    address: EngineAddress,
    prefix: String,
    user: Option<String>,
    password: Option<Secret>,
}

impl Setting for EngineSetting {
    const SHAPE: Shape =
        Shape::between(1, 5, "address [topology=sentinel:name] [prefix=text] [user=name] [password_file=file]");

    fn set(_: Option<Self>, directive: &Node, cx: &mut Cx) -> Result<Self, Problem> {
        let [address, parameters @ ..] = &directive.args[..] else { return Err(Problem::wrong_count(directive)) };
        let (mut primary, mut prefix, mut user, mut password) = (None, PREFIX.to_owned(), None, None);
        for word in parameters {
            let invalid = || Problem::invalid_parameter(directive, word);
            match word.text.split_once('=') {
                Some(("topology", "single")) => {}
                Some(("topology", value)) => {
                    let name = value.strip_prefix("sentinel:").filter(|name| !name.is_empty());
                    primary = Some(name.ok_or_else(|| invalid().hint("it is \"single\" or \"sentinel:NAME\""))?);
                }
                Some(("prefix", text)) => {
                    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
                    if text.is_empty() || text.len() > MAX_PREFIX || !text.bytes().all(is_plain) {
                        let hint = format!("it has 1 to {MAX_PREFIX} letters, digits, or characters of \"-_.:\"");
                        return Err(invalid().hint(hint));
                    }
                    text.clone_into(&mut prefix);
                }
                Some(("user", name)) if !name.is_empty() => user = Some(name.to_owned()),
                Some(("password_file", path)) if !path.is_empty() => password = Some(first_line(path, word, cx)?),
                _ => return Err(invalid()),
            }
        }
        let address = EngineAddress::parse(&address.text, primary).map_err(|error| {
            Problem::new(format!("invalid address of an engine \"{}\"", address.text))
                .at(address.place)
                .hint(error.to_string())
        })?;
        cx.extensions.insert(EngineDeclared);
        Ok(EngineSetting { address, prefix, user, password })
    }
}

/// The contents of a small file with a secret.
fn read(path: &str, word: &Word, cx: &mut Cx) -> Result<Secret, Problem> {
    let path = full_path(path, cx);
    let secret = cx.extensions.get_or_default::<ConfigurationFiles>().get_whole(&path);
    let secret = secret.map_err(|(call, error)| {
        Problem::new(format!("{call} \"{path}\" failed ({})", Errno(&error))).at(word.place)
    })?;
    if secret.bytes().len() > MAX_SECRET {
        return Err(Problem::new(format!("\"{path}\" has more than {MAX_SECRET} bytes")).at(word.place));
    }
    Ok(secret)
}

/// The first line of a file.
fn first_line(path: &str, word: &Word, cx: &mut Cx) -> Result<Secret, Problem> {
    let contents = read(path, word, cx)?;
    let line = contents.bytes().split(|byte| matches!(byte, b'\n' | b'\r')).next().unwrap_or_default();
    if line.is_empty() {
        return Err(Problem::new(format!("the first line of \"{path}\" is empty")).at(word.place));
    }
    Ok(Secret::new(line.to_vec()))
}

/// The value of `zone_sync_secret`.
#[derive(Debug, Clone)]
pub struct SecretFile(Secret);

impl Value for SecretFile {
    const SHAPE: Shape = Shape::exactly(1, "file");

    fn parse(directive: &Node, cx: &mut Cx) -> Result<SecretFile, Problem> {
        let word = &directive.args[0];
        let secret = read(&word.text, word, cx)?;
        if secret.bytes().trim_ascii().len() < MIN_SECRET {
            let problem = Problem::new(format!("the secret in \"{}\" has less than {MIN_SECRET} bytes", word.text));
            return Err(problem.at(word.place).hint("make one with: openssl rand -hex 32"));
        }
        cx.extensions.insert(SecretDeclared);
        Ok(SecretFile(Secret::new(secret.bytes().trim_ascii().to_vec())))
    }
}

/// A file with certificates, or with a key, as PEM.
#[derive(Debug, Clone)]
pub struct PemFile(Secret);

impl Value for PemFile {
    const SHAPE: Shape = Shape::exactly(1, "file");

    fn parse(directive: &Node, cx: &mut Cx) -> Result<PemFile, Problem> {
        let word = &directive.args[0];
        let path = full_path(&word.text, cx);
        let read = cx.extensions.get_or_default::<ConfigurationFiles>().get_whole(&path);
        let pem = read.map_err(|(call, error)| {
            Problem::new(format!("{call} \"{path}\" failed ({})", Errno(&error))).at(word.place)
        })?;
        if !pem.bytes().windows(BEGIN.len()).any(|part| part == BEGIN) {
            return Err(Problem::new(format!("\"{path}\" has no certificate or key as PEM")).at(word.place));
        }
        Ok(PemFile(pem))
    }
}

/// The beginning of anything that is written as PEM (RFC 7468).
const BEGIN: &[u8] = b"-----BEGIN ";

/// The engine of a configuration: one of the parts of its generation.
#[derive(Debug)]
pub struct WantedEngine(pub EngineSettings);

/// Takes the engine of a configuration, at the end of a service's block. Each service calls this with its settings, as a
/// configuration may have only one of them.
///
/// # Errors
/// Directives do not fit together.
pub fn declare(settings: &SettingsSet, cx: &mut Cx) -> Result<(), Problem> {
    let own = settings.get::<ZoneSyncSettings>();
    let zones = cx.extensions.get_or_default::<ZoneTable>();
    let Some(engine) = &own.zone_sync_engine else {
        // A configuration without an engine keeps the cluster of the configuration before, to leave it.
        let running = zones.running::<Cluster>(ZONE_KEY);
        if let Some(cluster) = running {
            cx.extensions.get_or_default::<Parts>().insert(cluster);
        }
        return Ok(());
    };
    let cluster = zones.keep(ZONE_KEY, Cluster::default);
    let pem = |file: &Option<PemFile>| file.as_ref().map(|file| file.0.clone());
    let (certificate, key) = (pem(&own.zone_sync_ssl_certificate), pem(&own.zone_sync_ssl_certificate_key));
    if certificate.is_some() != key.is_some() {
        let problem =
            Problem::new("\"zone_sync_ssl_certificate\" and \"zone_sync_ssl_certificate_key\" belong together");
        return Err(problem);
    }
    let wanted = EngineSettings {
        address: engine.address.clone(),
        prefix: engine.prefix.clone(),
        user: engine.user.clone(),
        password: engine.password.clone(),
        secret: own.zone_sync_secret.as_ref().map(|secret| secret.0.clone()),
        tls: EngineTls {
            trusted: pem(&own.zone_sync_ssl_trusted_certificate),
            own: certificate.zip(key),
            accepts_any: !own.zone_sync_ssl_verify,
        },
    };
    let parts = cx.extensions.get_or_default::<Parts>();
    parts.insert(cluster);
    parts.insert(Arc::new(WantedEngine(wanted)));
    Ok(())
}

/// The name under which the cluster is kept from one configuration to the next.
const ZONE_KEY: &str = "cluster";
