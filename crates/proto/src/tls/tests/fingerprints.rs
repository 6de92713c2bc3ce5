//! JA3 and JA4 of ClientHellos that real clients have sent.

use super::*;
use md5::Digest;

#[test]
fn ja3_and_ja4_of_clients() {
    for sample in SAMPLES {
        let input = bytes_of(sample.hex);
        let received = hello(&input);
        let message = received.message(&input);
        let ja3 = fingerprint::ja3(&received.hello, message);
        assert_eq!(ja3, sample.ja3, "{}", sample.name);
        let hash: String = md5::Md5::digest(&ja3).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hash, sample.ja3_md5, "{}", sample.name);
        assert_eq!(Ja4::of(&received.hello, message).raw(), sample.ja4_raw, "{}", sample.name);
    }
}

/// The example in FoxIO's description of JA4, with random values put in everywhere.
#[test]
fn ja4_is_that_of_its_description() {
    let ciphers = [
        0x5a5a, 0x1301, 0x1302, 0x1303, 0xc02b, 0xc02f, 0xc02c, 0xc030, 0xcca9, 0xcca8, 0xc013, 0xc014, 0x009c, 0x009d,
        0x002f, 0x0035,
    ];
    let extensions = [
        extension(0x6a6a, b""),
        extension(0x001b, b"\x02\0\x02"),
        server_names(&[b"example.com"]),
        extension(0x0033, b"\0\0"),
        alpn(&[b"h2", b"http/1.1"]),
        extension(0x4469, b"\0\x03\x02h2"),
        extension(0x0017, b""),
        extension(0x002d, b"\x01\x01"),
        signatures(&[0x0403, 0x0804, 0x0401, 0x0503, 0x0805, 0x0501, 0x0806, 0x0601]),
        extension(0x0005, b"\x01\0\0\0\0"),
        extension(0x0023, b""),
        extension(0x0012, b""),
        versions(&[0xfafa, 0x0304, 0x0303]),
        extension(0xff01, b"\0"),
        extension(0x000b, b"\x01\0"),
        groups(&[0x3a3a, 0x001d, 0x0017, 0x0018]),
        extension(0x7a7a, b"\0"),
        extension(0x0015, b"\0\0"),
    ];
    let message = Builder { ciphers: list16(&ciphers), ..Builder::new(&extensions) }.message();
    let hello = ClientHello::parse(&message).unwrap();
    let ja4 = Ja4::of(&hello, &message);
    let sha256 = |text: &[u8]| {
        let mut hash = [0; 32];
        let begin: &[u8] = match text {
            b"002f,0035,009c,009d,1301,1302,1303,c013,c014,c02b,c02c,c02f,c030,cca8,cca9" => {
                b"\x8d\xaa\xf6\x15\x27\x71"
            }
            b"0005,000a,000b,000d,0012,0015,0017,001b,0023,002b,002d,0033,4469,ff01_\
              0403,0804,0401,0503,0805,0501,0806,0601" => b"\xe5\x62\x7e\xfa\x2a\xb1",
            _ => panic!("{}", text.escape_ascii()),
        };
        hash[..6].copy_from_slice(begin);
        hash
    };
    assert_eq!(ja4.hashed(sha256), "t13d1516h2_8daaf6152771_e5627efa2ab1");
    assert_eq!(
        fingerprint::ja3(&hello, &message),
        "771,4865-4866-4867-49195-49199-49196-49200-52393-52392-49171-49172-156-157-47-53,\
         27-0-51-16-17513-23-45-13-5-35-18-43-65281-11-10-21,29-23-24,0"
    );
}

#[test]
fn ja4_of_hellos_that_say_little() {
    let of = |builder: Builder| {
        let message = builder.message();
        Ja4::of(&ClientHello::parse(&message).unwrap(), &message)
    };
    let old = of(Builder { extensions: None, version: 0x0301, ..Builder::new(&[]) });
    assert_eq!(old.raw(), "t10i020000_1301,c02f_");
    assert_eq!(old.hashed(|_| [0xab; 32]), "t10i020000_abababababab_000000000000");
    let random = Builder { ciphers: list16(&[0x0a0a]), ..Builder::new(&[versions(&[0x0a0a])]) };
    assert_eq!(of(random).raw(), "t00i000100__002b");
    let many = Builder { ciphers: list16(&(1000..1200).collect::<Vec<u16>>()), ..Builder::new(&[]) };
    assert_eq!(of(many).a, "t12i990000");
}

#[test]
fn ja4_has_the_ends_of_a_protocol_or_of_its_hexadecimal_form() {
    for (name, ends) in [
        (&b"h2"[..], "h2"),
        (b"http/1.1", "h1"),
        (b"a", "aa"),
        (b"\xab", "ab"),
        (b"\xab\xcd", "ad"),
        (b"\x30\xab", "3b"),
        (b"\x30\x31\xab\xcd", "3d"),
        (b"\x30\xab\xcd\x31", "01"),
    ] {
        let message = Builder::new(&[alpn(&[name, b"h2"])]).message();
        let ja4 = Ja4::of(&ClientHello::parse(&message).unwrap(), &message);
        assert_eq!(ja4.a, format!("t12i0201{ends}"), "{}", name.escape_ascii());
    }
}
