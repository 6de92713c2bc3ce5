//! Cipher strings mean what OpenSSL 3.0 takes them for: the same suites in the same order, or the same refusal.

use std::path::Path;
use std::process::Command;

use freerun_testkit::require;
use freerun_tls::openssl::ciphers::{
    Authentication, CipherStringError, Encryption, KeyExchange, Mac, SUITES, Since, Suite, evaluate,
};

/// Strings that people have.
const WRITTEN: &[&str] = &[
    "DEFAULT",
    "HIGH:!aNULL:!MD5",
    "ALL",
    "ALL:COMPLEMENTOFALL",
    "COMPLEMENTOFDEFAULT",
    "DEFAULT:!DHE:@STRENGTH",
    "DEFAULT@SECLEVEL=1",
    "DEFAULT:@SECLEVEL=0",
    "DEFAULTX",
    "DEFAULT ECDSA:-ECDHE",
    "HIGH:DEFAULT",
    "EECDH+CHACHA20:EECDH+AES",
    "EECDH+CHACHA20:EECDH+AES128:RSA+AES128:EECDH+AES256:RSA+AES256:EECDH+3DES:RSA+3DES:!MD5",
    "EECDH+AESGCM:EDH+AESGCM",
    "EECDH+AESGCM:EDH+AESGCM:AES256+EECDH:AES256+EDH",
    "ALL:!ADH:!EXPORT56:RC4+RSA:+HIGH:+MEDIUM:+LOW:+SSLv2:+EXP",
    "ALL:!aNULL:!ADH:!eNULL:!LOW:!EXP:RC4+RSA:+HIGH:+MEDIUM",
    "ECCdraft:HIGH",
    "ECDHE-RSA-AES128-GCM-SHA256:HIGH:!aNULL:!MD5:!RC4:!DHE",
    "ECDH+AESGCM:ECDH+AES256:ECDH+AES128:DH+3DES:!ADH:!AECDH:!MD5",
    "kEECDH+ECDSA+AES128 kEECDH+ECDSA+AES256 kEECDH+AES128 kEECDH+AES256 kEDH+AES128 kEDH+AES256 DES-CBC3-SHA +SHA !aNULL \
     !eNULL !LOW !kECDH !DSS !MD5 !RC4 !EXP !PSK !SRP !CAMELLIA !SEED",
    "HIGH:!RC4:!3DES:!aDSS:!aNULL:!kPSK:!kSRP:!MD5:@STRENGTH:+SHA1:+kRSA",
    "TLSv1.2:!aNULL:!eNULL",
    "TLSv1:SSLv3",
    "TLSv1.2+kRSA:kPSK+TLSv1.2",
    "TLSv1.2+SSLv3",
    "kRSA",
    "aRSA+kECDHE",
    "kPSK",
    "PSK:!kPSK",
    "SRP",
    "aSRP+kSRP",
    "ADH:AECDH",
    "aNULL:eNULL",
    "NULL",
    "SHA384:SHA256",
    "SHA:MD5",
    "CAMELLIA:ARIA",
    "AESCCM:AESCCM8",
    "AESCCM8+AES128",
    "FIPS",
    "HIGH+FIPS",
    "FIPS+HIGH:ALL",
    "LOW:MEDIUM",
    "3DES",
    "RC4",
    "IDEA:SEED:GOST",
    "CBC",
    "DH",
    "ECDH:-AES",
    "DSS",
    "aECDSA:ECDSA",
    "SUITEB128",
    "SUITEB128ONLY",
    "SUITEB192",
    "SUITEB128C2",
    "SUITEB128FOO:@BAR",
    "HIGH:SUITEB128",
    "AES128-SHA+AES",
    "AES+AES128-SHA",
    "AES128-SHA+ECDHE",
    "AES128-SHA+AES128-SHA",
    "TLSv1.2+AES128-SHA",
    "AES128-SHA256+TLSv1.2",
    "TLS_AES_128_GCM_SHA256",
    "tls_rsa_with_aes_128_cbc_sha",
    "aes128-sha",
    "AES128-SHA:AES128-SHA",
    "AES256-SHA:AES128-SHA:+AES256-SHA",
    "ALL:-AES:ALL",
    "ALL:-AES128:AES128:-AES256:AES",
    "ALL:!AES:AES:ALL",
    "AES:!AES",
    "AES:-AES",
    "ALL:+AES:+ECDHE:-kRSA:@STRENGTH:kRSA",
    "COMPLEMENTOFDEFAULT+AES",
    "COMPLEMENTOFDEFAULT+AES128-SHA:ECDHE",
    "ECDHE-ECDSA-AES128-CCM+COMPLEMENTOFDEFAULT",
    "",
    " ",
    ":",
    ":,; ",
    "FOO",
    "FOO:BAR",
    "HIGH:",
    ":HIGH",
    "HIGH::AES",
    "HIGH;AES,ARIA CAMELLIA",
    "HIGH!aNULL-AES",
    "HIGH@STRENGTH",
    "HIGH:@FOO",
    "HIGH:@",
    "HIGH:@STRENGTH+AES:!ARIA",
    "HIGH:@SECLEVEL=6",
    "HIGH:@SECLEVEL=",
    "HIGH:@SECLEVEL=10",
    "HIGH:@strength",
    "HIGH:$AES",
    "HIGH$AES",
    "HIGH:! AES",
    "HIGH:!:AES",
    "HIGH:!!AES",
    "HIGH:+-AES",
    "HIGH++AES",
    "AES+FOO+ECDHE:ARIA",
    "FOO+AES:ARIA",
    "HIGH:ÄES:AES",
    "HIGH:!AES\u{a0}GCM",
    // Mozilla's lists: modern before TLS 1.3, intermediate in two versions, old.
    "ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-RSA-AES256-GCM-SHA384:ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305:\
     ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-SHA384:ECDHE-RSA-AES256-SHA384:\
     ECDHE-ECDSA-AES128-SHA256:ECDHE-RSA-AES128-SHA256",
    "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-RSA-AES256-GCM-SHA384:\
     ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305:DHE-RSA-AES128-GCM-SHA256:DHE-RSA-AES256-GCM-SHA384",
    "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-RSA-AES256-GCM-SHA384:\
     ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305:DHE-RSA-AES128-GCM-SHA256:DHE-RSA-AES256-GCM-SHA384:\
     DHE-RSA-CHACHA20-POLY1305",
    "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-RSA-AES256-GCM-SHA384:\
     ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305:DHE-RSA-AES128-GCM-SHA256:DHE-RSA-AES256-GCM-SHA384:\
     DHE-RSA-CHACHA20-POLY1305:ECDHE-ECDSA-AES128-SHA256:ECDHE-RSA-AES128-SHA256:ECDHE-ECDSA-AES128-SHA:\
     ECDHE-RSA-AES128-SHA:ECDHE-ECDSA-AES256-SHA384:ECDHE-RSA-AES256-SHA384:ECDHE-ECDSA-AES256-SHA:ECDHE-RSA-AES256-SHA:\
     DHE-RSA-AES128-SHA256:DHE-RSA-AES256-SHA256:AES128-GCM-SHA256:AES256-GCM-SHA384:AES128-SHA256:AES256-SHA256:AES128-SHA:\
     AES256-SHA:DES-CBC3-SHA",
    "ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES256-GCM-SHA384:ECDHE-ECDSA-AES256-GCM-SHA384:\
     DHE-RSA-AES128-GCM-SHA256:DHE-DSS-AES128-GCM-SHA256:kEDH+AESGCM:ECDHE-RSA-AES128-SHA256:ECDHE-ECDSA-AES128-SHA256:\
     ECDHE-RSA-AES128-SHA:ECDHE-ECDSA-AES128-SHA:ECDHE-RSA-AES256-SHA384:ECDHE-ECDSA-AES256-SHA384:ECDHE-RSA-AES256-SHA:\
     ECDHE-ECDSA-AES256-SHA:DHE-RSA-AES128-SHA256:DHE-RSA-AES128-SHA:DHE-DSS-AES128-SHA256:DHE-RSA-AES256-SHA256:\
     DHE-DSS-AES256-SHA:DHE-RSA-AES256-SHA:ECDHE-RSA-DES-CBC3-SHA:ECDHE-ECDSA-DES-CBC3-SHA:EDH-RSA-DES-CBC3-SHA:\
     AES128-GCM-SHA256:AES256-GCM-SHA384:AES128-SHA256:AES256-SHA256:AES128-SHA:AES256-SHA:AES:CAMELLIA:DES-CBC3-SHA:!aNULL:\
     !eNULL:!EXPORT:!DES:!RC4:!MD5:!PSK:!aECDH:!EDH-DSS-DES-CBC3-SHA:!KRB5-DES-CBC3-SHA",
];

/// The words that strings are made of; names of suites come besides.
const WORDS: &[&str] = &[
    "ALL",
    "COMPLEMENTOFALL",
    "COMPLEMENTOFDEFAULT",
    "HIGH",
    "MEDIUM",
    "LOW",
    "FIPS",
    "kRSA",
    "kDHE",
    "kEDH",
    "DH",
    "kECDHE",
    "kEECDH",
    "ECDH",
    "kPSK",
    "kRSAPSK",
    "kDHEPSK",
    "kECDHEPSK",
    "kSRP",
    "SRP",
    "PSK",
    "aRSA",
    "aDSS",
    "DSS",
    "aECDSA",
    "ECDSA",
    "aNULL",
    "aPSK",
    "aSRP",
    "RSA",
    "DHE",
    "EDH",
    "ECDHE",
    "EECDH",
    "ADH",
    "AECDH",
    "NULL",
    "eNULL",
    "AES128",
    "AES256",
    "AES",
    "AESGCM",
    "AESCCM",
    "AESCCM8",
    "CHACHA20",
    "ARIA",
    "ARIAGCM",
    "ARIA128",
    "ARIA256",
    "CAMELLIA",
    "CAMELLIA128",
    "CAMELLIA256",
    "CBC",
    "MD5",
    "SHA1",
    "SHA",
    "SHA256",
    "SHA384",
    "SSLv3",
    "TLSv1",
    "TLSv1.0",
    "TLSv1.2",
    "3DES",
    "RC4",
    "RC2",
    "DES",
    "IDEA",
    "SEED",
    "GOST94",
    "GOST89",
    "GOST",
    "kGOST",
    "EXP",
    "DEFAULT",
    "ECCdraft",
    "high",
];

/// How many strings are made up.
const MADE_UP: usize = 400;

/// What OpenSSL says of a string: the names of suites, or its error.
fn openssl(program: &Path, text: &str) -> Result<Vec<String>, String> {
    let output = Command::new(program).args(["ciphers", "--", text]).output().expect("openssl runs");
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let kind = ["no cipher match", "invalid command"].into_iter().find(|kind| said.contains(kind));
        return Err(kind.map_or(said.clone(), str::to_owned));
    }
    let names = String::from_utf8(output.stdout).expect("names");
    // The suites of TLS 1.3 stand before all others, whatever the string says.
    Ok(names.trim().split(':').filter(|name| !name.starts_with("TLS_")).map(str::to_owned).collect())
}

fn ours(text: &str) -> Result<Vec<String>, String> {
    match evaluate(text) {
        Ok(list) => Ok(list.suites.iter().map(|suite| suite.name.to_owned()).collect()),
        Err(CipherStringError::NoMatch) => Err("no cipher match".to_owned()),
        Err(CipherStringError::InvalidCommand(_)) => Err("invalid command".to_owned()),
    }
}

/// OpenSSL 3.0, whose suites and rules these are. Later versions differ in details.
fn program() -> Option<std::path::PathBuf> {
    let program = require::program("openssl")?;
    let output = Command::new(&program).arg("version").output().expect("openssl runs");
    let version = String::from_utf8_lossy(&output.stdout).into_owned();
    let why = format!("OpenSSL 3.0 is needed, this is {version}");
    require::need("openssl-3.0", version.starts_with("OpenSSL 3.0."), &why).then_some(program)
}

/// A small generator of numbers, the same in each run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }

    fn word(&mut self) -> &'static str {
        match self.below(5) {
            0 => SUITES[self.below(SUITES.len())].name,
            _ => WORDS[self.below(WORDS.len())],
        }
    }

    fn text(&mut self) -> String {
        let mut text = ["ALL", "", "HIGH", "DEFAULT", "ALL:COMPLEMENTOFALL"][self.below(5)].to_owned();
        for _ in 0..=self.below(8) {
            text.push_str([":", ":", ":", ",", " ", ";"][self.below(6)]);
            if self.below(12) == 0 {
                text.push_str(["@STRENGTH", "@STRENGTH", "@SECLEVEL=2", "@SECLEVEL=7"][self.below(4)]);
                continue;
            }
            text.push_str(["", "", "", "!", "-", "+", "-", "+"][self.below(8)]);
            text.push_str(self.word());
            for _ in 0..[0, 0, 0, 1, 1, 2][self.below(6)] {
                text.push('+');
                text.push_str(self.word());
            }
        }
        text
    }
}

#[test]
fn strings_mean_the_same() {
    let Some(program) = program() else { return };
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
    let made_up: Vec<String> = (0..MADE_UP).map(|_| numbers.text()).collect();
    let mut wrong = String::new();
    let mut accepted = 0;
    for text in WRITTEN.iter().copied().chain(made_up.iter().map(String::as_str)) {
        let (theirs, ours) = (openssl(&program, text), ours(text));
        accepted += usize::from(theirs.is_ok());
        if theirs != ours {
            wrong += &format!("{text}\n  - {theirs:?}\n  + {ours:?}\n");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(accepted > MADE_UP / 2, "most strings have to mean something: {accepted}");
}

#[test]
fn the_table_of_suites_is_the_same() {
    let Some(program) = program() else { return };
    let output = Command::new(program).args(["ciphers", "-V", "-stdname", "ALL:COMPLEMENTOFALL"]).output();
    let theirs = String::from_utf8(output.expect("openssl runs").stdout).expect("text");
    let mut theirs: Vec<String> =
        theirs.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    theirs.retain(|line| !line.starts_with("0x13,"));
    let mut ours: Vec<String> = SUITES.iter().map(line).collect();
    theirs.sort_unstable();
    ours.sort_unstable();
    assert_eq!(ours, theirs);
}

/// A suite as `openssl ciphers -V -stdname` prints it.
fn line(suite: &Suite) -> String {
    let [high, low] = suite.id.to_be_bytes();
    let since = match suite.since {
        Since::Ssl3 => "SSLv3",
        Since::Tls1 => "TLSv1",
        Since::Tls12 => "TLSv1.2",
    };
    let kx = match suite.key_exchange {
        KeyExchange::Rsa => "RSA",
        KeyExchange::Dhe => "DH",
        KeyExchange::Ecdhe => "ECDH",
        KeyExchange::Psk => "PSK",
        KeyExchange::RsaPsk => "RSAPSK",
        KeyExchange::DhePsk => "DHEPSK",
        KeyExchange::EcdhePsk => "ECDHEPSK",
        KeyExchange::Srp => "SRP",
    };
    let auth = match suite.authentication {
        Authentication::Rsa => "RSA",
        Authentication::Dss => "DSS",
        Authentication::Ecdsa => "ECDSA",
        Authentication::Anonymous => "None",
        Authentication::Psk => "PSK",
        Authentication::Srp => "SRP",
    };
    let bits = suite.strength_bits();
    let enc = match suite.encryption {
        Encryption::Null => "None".to_owned(),
        Encryption::Aes128 | Encryption::Aes256 => format!("AES({bits})"),
        Encryption::Aes128Gcm | Encryption::Aes256Gcm => format!("AESGCM({bits})"),
        Encryption::Aes128Ccm | Encryption::Aes256Ccm => format!("AESCCM({bits})"),
        Encryption::Aes128Ccm8 | Encryption::Aes256Ccm8 => format!("AESCCM8({bits})"),
        Encryption::Chacha20 => format!("CHACHA20/POLY1305({bits})"),
        Encryption::Aria128Gcm | Encryption::Aria256Gcm => format!("ARIAGCM({bits})"),
        Encryption::Camellia128 | Encryption::Camellia256 => format!("Camellia({bits})"),
    };
    let mac = match suite.mac {
        Mac::Md5 => "MD5",
        Mac::Sha1 => "SHA1",
        Mac::Sha256 => "SHA256",
        Mac::Sha384 => "SHA384",
        Mac::Aead => "AEAD",
    };
    let (standard, name) = (suite.standard_name, suite.name);
    format!("0x{high:02X},0x{low:02X} - {standard} - {name} {since} Kx={kx} Au={auth} Enc={enc} Mac={mac}")
}
