use super::*;

/// Strings, and the suites that OpenSSL 3.0 makes of them.
const MEANINGS: &[(&str, &str)] = &[
    (
        "EECDH+CHACHA20:EECDH+AES:!CBC",
        "ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305:ECDHE-ECDSA-AES256-GCM-SHA384:\
         ECDHE-RSA-AES256-GCM-SHA384:ECDHE-ECDSA-AES256-CCM8:ECDHE-ECDSA-AES256-CCM:\
         ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES128-CCM8:\
         ECDHE-ECDSA-AES128-CCM",
    ),
    (
        "HIGH+AESGCM:!PSK:!ADH:!aDSS",
        "ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-RSA-AES256-GCM-SHA384:DHE-RSA-AES256-GCM-SHA384:\
         ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:DHE-RSA-AES128-GCM-SHA256:\
         AES256-GCM-SHA384:AES128-GCM-SHA256",
    ),
    (
        "EECDH+AESGCM:EDH+AESGCM:!aDSS",
        "ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-RSA-AES256-GCM-SHA384:ECDHE-ECDSA-AES128-GCM-SHA256:\
         ECDHE-RSA-AES128-GCM-SHA256:DHE-RSA-AES256-GCM-SHA384:DHE-RSA-AES128-GCM-SHA256",
    ),
    ("ECDHE-RSA-AES128-GCM-SHA256:AES128-SHA:+ECDHE-RSA-AES128-GCM-SHA256", "AES128-SHA:ECDHE-RSA-AES128-GCM-SHA256"),
    ("AES128-SHA:AES256-SHA:@STRENGTH", "AES256-SHA:AES128-SHA"),
    (
        "RSA+AES:@STRENGTH:+SHA1:!AESCCM",
        "AES256-GCM-SHA384:AES256-SHA256:AES128-GCM-SHA256:AES128-SHA256:AES256-SHA:AES128-SHA",
    ),
    (
        "ARIA256+aRSA:-kRSA:kRSA+ARIA",
        "ECDHE-ARIA256-GCM-SHA384:DHE-RSA-ARIA256-GCM-SHA384:RSA-PSK-ARIA256-GCM-SHA384:\
         ARIA256-GCM-SHA384:ARIA128-GCM-SHA256",
    ),
    ("AES+kRSA:-SHA1:AES+kRSA+SHA1:!AESCCM:!AESGCM", "AES256-SHA256:AES128-SHA256:AES256-SHA:AES128-SHA"),
    ("CAMELLIA128+RSA:CAMELLIA256+RSA", "CAMELLIA128-SHA256:CAMELLIA128-SHA:CAMELLIA256-SHA256:CAMELLIA256-SHA"),
    (
        "aNULL+AESGCM:AECDH",
        "ADH-AES256-GCM-SHA384:ADH-AES128-GCM-SHA256:AECDH-AES256-SHA:AECDH-AES128-SHA:AECDH-NULL-SHA",
    ),
    (
        "eNULL+aRSA",
        "ECDHE-RSA-NULL-SHA:NULL-SHA256:RSA-PSK-NULL-SHA384:RSA-PSK-NULL-SHA256:RSA-PSK-NULL-SHA:\
         NULL-SHA:NULL-MD5",
    ),
    ("COMPLEMENTOFALL+ECDHE+aECDSA", "ECDHE-ECDSA-NULL-SHA"),
    (
        "kECDHEPSK+AES",
        "ECDHE-PSK-AES256-CBC-SHA384:ECDHE-PSK-AES256-CBC-SHA:ECDHE-PSK-AES128-CBC-SHA256:\
         ECDHE-PSK-AES128-CBC-SHA",
    ),
    ("SRP+aSRP", "SRP-AES-256-CBC-SHA:SRP-AES-128-CBC-SHA"),
    ("MD5", "NULL-MD5"),
    (
        "TLSv1+aRSA",
        "ECDHE-RSA-AES256-SHA:ECDHE-RSA-AES128-SHA:ECDHE-RSA-NULL-SHA:RSA-PSK-AES256-CBC-SHA384:\
         RSA-PSK-CAMELLIA256-SHA384:RSA-PSK-AES128-CBC-SHA256:RSA-PSK-CAMELLIA128-SHA256:\
         RSA-PSK-NULL-SHA384:RSA-PSK-NULL-SHA256",
    ),
    ("SSLv3+aPSK+AES128", "DHE-PSK-AES128-CBC-SHA:PSK-AES128-CBC-SHA"),
    ("TLSv1.2+kRSA+AES256", "AES256-GCM-SHA384:AES256-CCM8:AES256-CCM:AES256-SHA256"),
    ("SUITEB128", "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384"),
    ("SUITEB192:HIGH", "ECDHE-ECDSA-AES256-GCM-SHA384"),
    ("AES128-SHA,AES256-SHA", "AES128-SHA:AES256-SHA"),
    ("AES128-SHA+AES+kRSA:!AESCCM:!SHA256", "AES128-SHA"),
    ("AES+AES128-SHA", "AES128-SHA"),
    ("ECCdraft:AES128-SHA FOO", "AES128-SHA"),
    ("AES128-SHA!AES256", "AES128-SHA"),
    ("FOO+AES:AES128-SHA", "AES128-SHA"),
    ("AES128-SHA:FOO+AES256", "AES128-SHA"),
    ("AES:!AES:AES128-SHA:ARIA+RSA", "ARIA256-GCM-SHA384:ARIA128-GCM-SHA256"),
    ("AES+RSA:-AES128:AES128+RSA+SHA1:!AESCCM", "AES256-GCM-SHA384:AES256-SHA256:AES256-SHA:AES128-SHA"),
    (
        "DEFAULT:!ECDHE:!DHE:!PSK:!SRP",
        "AES256-GCM-SHA384:AES128-GCM-SHA256:AES256-SHA256:AES128-SHA256:AES256-SHA:AES128-SHA",
    ),
    (
        "DEFAULT+RSA",
        "ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-RSA-AES256-GCM-SHA384:DHE-RSA-AES256-GCM-SHA384:\
         ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305:DHE-RSA-CHACHA20-POLY1305:\
         ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:DHE-RSA-AES128-GCM-SHA256:\
         ECDHE-ECDSA-AES256-SHA384:ECDHE-RSA-AES256-SHA384:DHE-RSA-AES256-SHA256:\
         ECDHE-ECDSA-AES128-SHA256:ECDHE-RSA-AES128-SHA256:DHE-RSA-AES128-SHA256:ECDHE-ECDSA-AES256-SHA:\
         ECDHE-RSA-AES256-SHA:DHE-RSA-AES256-SHA:ECDHE-ECDSA-AES128-SHA:ECDHE-RSA-AES128-SHA:\
         DHE-RSA-AES128-SHA:RSA-PSK-AES256-GCM-SHA384:DHE-PSK-AES256-GCM-SHA384:\
         RSA-PSK-CHACHA20-POLY1305:DHE-PSK-CHACHA20-POLY1305:ECDHE-PSK-CHACHA20-POLY1305:\
         PSK-AES256-GCM-SHA384:PSK-CHACHA20-POLY1305:RSA-PSK-AES128-GCM-SHA256:\
         DHE-PSK-AES128-GCM-SHA256:PSK-AES128-GCM-SHA256:ECDHE-PSK-AES256-CBC-SHA384:\
         ECDHE-PSK-AES256-CBC-SHA:SRP-RSA-AES-256-CBC-SHA:SRP-AES-256-CBC-SHA:RSA-PSK-AES256-CBC-SHA384:\
         DHE-PSK-AES256-CBC-SHA384:RSA-PSK-AES256-CBC-SHA:DHE-PSK-AES256-CBC-SHA:PSK-AES256-CBC-SHA384:\
         PSK-AES256-CBC-SHA:ECDHE-PSK-AES128-CBC-SHA256:ECDHE-PSK-AES128-CBC-SHA:\
         SRP-RSA-AES-128-CBC-SHA:SRP-AES-128-CBC-SHA:RSA-PSK-AES128-CBC-SHA256:\
         DHE-PSK-AES128-CBC-SHA256:RSA-PSK-AES128-CBC-SHA:DHE-PSK-AES128-CBC-SHA:PSK-AES128-CBC-SHA256:\
         PSK-AES128-CBC-SHA:AES256-GCM-SHA384:AES128-GCM-SHA256:AES256-SHA256:AES128-SHA256:AES256-SHA:\
         AES128-SHA",
    ),
    ("DSS+AESGCM", "DHE-DSS-AES256-GCM-SHA384:DHE-DSS-AES128-GCM-SHA256"),
];

fn names(text: &str) -> String {
    let list = evaluate(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    list.suites.iter().map(|suite| suite.name).collect::<Vec<_>>().join(":")
}

#[test]
fn strings_mean_what_openssl_takes_them_for() {
    for (text, expected) in MEANINGS {
        assert_eq!(names(text), *expected, "{text}");
    }
}

#[test]
fn whole_lists_are_counted() {
    for (text, count) in
        [("ALL", 137), ("ALL:COMPLEMENTOFALL", 155), ("COMPLEMENTOFDEFAULT", 80), ("DEFAULT", 57), ("FIPS", 60)]
    {
        assert_eq!(evaluate(text).map(|list| list.suites.len()), Ok(count), "{text}");
    }
}

#[test]
fn refusals_have_openssl_s_words() {
    let no_match = "error:0A0000B9:SSL routines::no cipher match";
    let invalid = "error:0A000118:SSL routines::invalid command";
    let twice = format!("{invalid} {invalid}");
    let cases = [
        ("", no_match),
        (" ", no_match),
        (":,;", no_match),
        ("FOO", no_match),
        ("HIGH:!ALL", no_match),
        ("TLS_AES_128_GCM_SHA256", no_match),
        ("!AES", no_match),
        ("@STRENGTH", no_match),
        ("HIGH:@FOO", invalid),
        ("DEFAULT:@FOO", invalid),
        ("HIGH:$", invalid),
        ("HIGH:!", invalid),
        ("HIGH:! AES", invalid),
        ("HIGH+", invalid),
        ("HIGH:ä:AES", invalid),
        ("HIGH:@SECLEVEL=6", invalid),
        ("HIGH:@SECLEVEL=", invalid),
        ("HIGH:@SECLEVEL=22", invalid),
        ("HIGH:@FOO:@BAR", &twice),
    ];
    for (text, said) in cases {
        let refused = ssl_ciphers(text).expect_err(text).to_string();
        assert_eq!(refused, format!("SSL_CTX_set_cipher_list(\"{text}\") failed (SSL: {said})"));
    }
}

#[test]
fn names_of_iana_are_read() {
    assert_eq!(
        names("TLS_RSA_WITH_AES_128_CBC_SHA:TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"),
        "AES128-SHA:ECDHE-RSA-AES128-GCM-SHA256"
    );
    assert_eq!(names("ALL:!TLS_RSA_WITH_AES_128_CBC_SHA").split(':').count(), 136);
}

#[test]
fn the_last_security_level_counts() {
    let level = |text: &str| evaluate(text).map(|list| list.security_level);
    assert_eq!(level("HIGH"), Ok(None));
    assert_eq!(level("DEFAULT@SECLEVEL=0"), Ok(Some(0)));
    assert_eq!(level("@SECLEVEL=1:HIGH:@SECLEVEL=5"), Ok(Some(5)));
}

#[test]
fn mozilla_s_lists_leave_what_they_mean() {
    let intermediate = "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384:\
                        ECDHE-RSA-AES256-GCM-SHA384:ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305";
    assert_eq!(names(intermediate), intermediate);
    let with_dhe = format!("{intermediate}:DHE-RSA-AES128-GCM-SHA256:DHE-RSA-AES256-GCM-SHA384");
    let list = evaluate(&with_dhe).expect("OpenSSL accepts it");
    let usable: Vec<_> = list.suites.iter().filter(|suite| suite.usable()).map(|suite| suite.name).collect();
    assert_eq!((list.suites.len(), usable.join(":").as_str()), (8, intermediate));
}
