use super::*;
use crate::openssl::RemarkLevel;

/// What a pair is read as, and the texts of the warnings.
fn said(name: &str, value: &str) -> Result<(CommandMeaning, Vec<String>), String> {
    let (command, remarks) = parse(name, value).map_err(|refused| refused.to_string())?;
    assert!(remarks.iter().all(|remark| remark.level == RemarkLevel::Warn));
    Ok((command, remarks.into_iter().map(|remark| remark.text).collect()))
}

fn silently(name: &str, value: &str) -> CommandMeaning {
    let (command, remarks) = said(name, value).unwrap_or_else(|refused| panic!("{refused}"));
    assert!(remarks.is_empty(), "{name} {value}: {remarks:?}");
    command
}

#[test]
fn protocols() {
    let after = |value: &str, set: Protocols| match silently("protocol", value) {
        CommandMeaning::Protocol(changes) => changes.into_iter().fold(set, |set, change| change.apply(set)),
        other => panic!("{other:?}"),
    };
    let (only_12, only_13) = (Protocols::NONE.with(SslProtocol::Tls12), Protocols::NONE.with(SslProtocol::Tls13));
    assert_eq!(after("+TLSv1.3", only_12), Protocols::DEFAULT);
    assert_eq!(after("TLSv1.2, -tlsv1.3", Protocols::DEFAULT), only_12);
    assert_eq!(after("-ALL,TLSv1.3", Protocols::DEFAULT), only_13);
    assert_eq!(after("-DTLSv1.2", Protocols::DEFAULT), Protocols::DEFAULT);
    assert_eq!(after("all", Protocols::NONE).usable().map(|(set, _)| set), Ok(Protocols::DEFAULT));

    assert_eq!(silently("MinProtocol", "TLSv1.2"), CommandMeaning::MinProtocol(Some(SslProtocol::Tls12)));
    assert_eq!(silently("MaxProtocol", "TLSv1.2"), CommandMeaning::MaxProtocol(Some(SslProtocol::Tls12)));
    assert_eq!(silently("MinProtocol", "None"), CommandMeaning::MinProtocol(None));
}

#[test]
fn lists_and_files() {
    let names = |command| match command {
        CommandMeaning::CipherString(list) => list.suites.iter().map(|suite| suite.name).collect::<Vec<_>>().join(":"),
        CommandMeaning::Ciphersuites(list) => list.iter().map(|suite| suite.name()).collect::<Vec<_>>().join(":"),
        CommandMeaning::Groups(list) => list.iter().map(|group| group.name()).collect::<Vec<_>>().join(":"),
        CommandMeaning::SignatureAlgorithms(list) => list.iter().map(|one| one.name).collect::<Vec<_>>().join(":"),
        CommandMeaning::ClientSignatureAlgorithms(list) => {
            list.iter().map(|one| one.name).collect::<Vec<_>>().join(",")
        }
        other => panic!("{other:?}"),
    };
    let cases = [
        ("CipherString", "AES128-SHA:ECDHE-RSA-AES128-SHA", "AES128-SHA:ECDHE-RSA-AES128-SHA"),
        ("CIPHERSUITES", "TLS_AES_128_GCM_SHA256:FOO", "TLS_AES_128_GCM_SHA256"),
        ("Ciphersuites", "", ""),
        ("Groups", "X25519: P-256", "X25519:prime256v1"),
        ("Curves", "P-384", "secp384r1"),
        ("ECDHParameters", "+Automatic", "X25519MLKEM768:X25519:prime256v1:secp384r1:secp521r1"),
        ("ECDHParameters", " x25519", "X25519"),
        ("SignatureAlgorithms", "RSA+SHA256:ed25519", "rsa_pkcs1_sha256:ed25519"),
        ("ClientSignatureAlgorithms", "ECDSA+SHA256:PSS+SHA256", "ecdsa_secp256r1_sha256,rsa_pss_rsae_sha256"),
    ];
    for (name, value, expected) in cases {
        assert_eq!(names(silently(name, value)), expected, "{name} {value}");
    }
    assert_eq!(silently("Certificate", "a b.pem"), CommandMeaning::Certificate("a b.pem".to_owned()));
    assert_eq!(silently("PrivateKey", "key.pem"), CommandMeaning::PrivateKey("key.pem".to_owned()));
}

#[test]
fn modes_options_and_numbers() {
    let mode = |asked, required| CommandMeaning::VerifyMode(VerifyMode { asked, required });
    assert_eq!(silently("VerifyMode", "peer"), mode(true, false));
    assert_eq!(silently("VerifyMode", "Peer,Require,RequestPostHandshake"), mode(true, true));
    assert_eq!(silently("VerifyMode", "Request,-Peer"), mode(false, false));

    let on = |option| OptionChange { on: true, option };
    let off = |option| OptionChange { on: false, option };
    assert_eq!(
        silently("Options", "+PrioritizeChaCha, -SessionTicket,KTLS,-Compression,NoRenegotiation"),
        CommandMeaning::Options(vec![on(SslOption::PrioritizeChaCha), off(SslOption::SessionTicket)])
    );
    assert_eq!(
        said("Options", "Compression,serverpreference,-CANames"),
        Ok((
            CommandMeaning::Options(vec![on(SslOption::ServerPreference)]),
            vec![
                "\"Options Compression\" not supported, ignored".to_owned(),
                "\"Options -CANames\" not supported, ignored".to_owned()
            ]
        ))
    );

    for (value, number) in [("3", 3), ("0", 0), ("", 0), ("x", 0), (" +3x", 3), ("-0", 0), ("99999999999", u32::MAX)] {
        assert_eq!(silently("NumTickets", value), CommandMeaning::NumTickets(number), "{value}");
    }
}

#[test]
fn what_has_no_effect_is_warned_of() {
    assert_eq!(silently("RecordPadding", "0"), CommandMeaning::Ignored);
    for (name, value) in [("RecordPadding", "16384"), ("DHParameters", "dh.pem"), ("verifycafile", "/ca.pem")] {
        let warning = format!("\"{name} {value}\" not supported, ignored");
        assert_eq!(said(name, value), Ok((CommandMeaning::Ignored, vec![warning])));
    }
}

#[test]
fn refusals_have_nginx_s_words() {
    const MATCH: &str = "error:0A0000B9:SSL routines::no cipher match ";
    const COMMAND: &str = "error:0A000118:SSL routines::invalid command ";
    const GROUP: &str = "error:0A080106:SSL routines::passed invalid argument:group 'auto' cannot be set ";
    let cases = [
        ("Protocol", "FOO", ""),
        ("Protocol", "", ""),
        ("Protocol", ",TLSv1.2", ""),
        ("Protocol", "- TLSv1", ""),
        ("Protocol", "TLSv1.2:TLSv1.3", ""),
        ("Protocol", "TLSv1.0", ""),
        ("MinProtocol", "", ""),
        ("MinProtocol", "all", ""),
        ("MinProtocol", "SSLv2", ""),
        ("MinProtocol", "tlsv1.2", ""),
        ("MaxProtocol", "TLSv1.4", ""),
        ("CipherString", "", MATCH),
        ("CipherString", "FOO", MATCH),
        ("CipherString", "HIGH:@FOO", COMMAND),
        ("Ciphersuites", "FOO", MATCH),
        ("Groups", "auto", GROUP),
        ("Groups", "", ""),
        ("Curves", "X25519:X25519", ""),
        ("ECDHParameters", "auto", GROUP),
        ("ECDHParameters", "X25519:P-256", ""),
        ("VerifyMode", "Foo", ""),
        ("VerifyMode", "", ""),
        ("Options", "Foo", ""),
        ("Options", "", ""),
        ("Options", "SessionTicket,,KTLS", ""),
        ("Options", "ServerPreference:SessionTicket", ""),
        ("Options", "+-KTLS", ""),
        ("NumTickets", "-1", ""),
        ("RecordPadding", "-1", ""),
        ("RecordPadding", "16385", ""),
        ("SignatureAlgorithms", "foo", ""),
        ("clientsignaturealgorithms", "RSA+SHA256:RSA+SHA256", ""),
    ];
    for (name, value, cause) in cases {
        let expected = format!(
            "SSL_CONF_cmd(\"{name}\", \"{value}\") failed (SSL: {cause}error:0A000180:SSL routines::bad \
             value:cmd={name}, value={value})"
        );
        assert_eq!(said(name, value), Err(expected), "{name} {value}");
    }
    for name in ["Foo", "no_ssl3", "-no_tls1_3", "cipher", "", "CAFile"] {
        let expected = format!(
            "SSL_CONF_cmd(\"{name}\", \"a\") failed (SSL: error:0A000182:SSL routines::unknown cmd name:cmd={name})"
        );
        assert_eq!(said(name, "a"), Err(expected), "{name}");
    }
}
