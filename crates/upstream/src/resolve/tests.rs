use std::net::Ipv4Addr;

use freerun_testkit::{Dns, DnsReply};
use hickory_proto::op::{Message, Query};
use hickory_proto::rr::Name;

use super::*;

const LONG: Duration = Duration::from_secs(20);

fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

fn resolver_of(servers: &[SocketAddr], valid: Option<Duration>) -> Arc<Resolver> {
    let servers = servers.iter().map(|server| NameServer { place: ServerPlace::Address((*server).into()) }).collect();
    Arc::new(Resolver::new(ResolverSpec { servers, valid, ipv4: true, ipv6: true, status_zone: None }))
}

fn resolver(dns: &Dns) -> Arc<Resolver> {
    resolver_of(&[dns.address()], None)
}

fn ip(last: u8) -> IpAddr {
    Ipv4Addr::new(127, 0, 0, last).into()
}

#[test]
fn addresses_of_both_kinds_are_found_and_kept_as_long_as_they_hold() {
    let dns = Dns::start();
    dns.set("a.test", DnsReply::Addresses(vec![ip(1), "::1".parse().unwrap(), ip(2)], 300));
    let resolver = resolver(&dns);
    run(async {
        let mut found = resolver.addresses("A.test.", LONG).await.unwrap().addresses.to_vec();
        found.sort();
        assert_eq!(found, [ip(1), ip(2), "::1".parse().unwrap()]);
        for _ in 0..10 {
            resolver.addresses("a.test", LONG).await.unwrap();
        }
        assert_eq!(dns.asked("a.test"), 2);
        let expires = resolver.addresses("a.test", LONG).await.unwrap().expires;
        assert!(expires > Instant::now() + Duration::from_secs(200));
    });
}

#[test]
fn valid_counts_instead_of_what_the_answer_says_and_changes_are_seen() {
    let dns = Dns::start();
    let resolver = resolver_of(&[dns.address()], Some(Duration::ZERO));
    run(async {
        for last in 1..4 {
            dns.set("a.test", DnsReply::Addresses(vec![ip(last)], 300));
            assert_eq!(*resolver.addresses("a.test", LONG).await.unwrap().addresses, [ip(last)]);
        }
    });
}

#[test]
fn each_failure_has_its_words() {
    let dns = Dns::start();
    let resolver = resolver(&dns);
    dns.set("none.test", DnsReply::Addresses(Vec::new(), 60));
    for code in [1, 2, 4, 5, 9] {
        dns.set(&format!("code{code}.test"), DnsReply::Code(code));
    }
    run(async {
        for (name, error, words) in [
            ("unknown.test", ResolveError::NotFound, "3: Host not found"),
            ("none.test", ResolveError::NotFound, "3: Host not found"),
            ("code1.test", ResolveError::Format, "1: Format error"),
            ("code2.test", ResolveError::ServerFailure, "2: Server failure"),
            ("code4.test", ResolveError::NotImplemented, "4: Unimplemented"),
            ("code5.test", ResolveError::Refused, "5: Operation refused"),
            ("code9.test", ResolveError::Other(9), "9: Unknown error"),
            ("a..test", ResolveError::Format, "1: Format error"),
        ] {
            assert_eq!(resolver.addresses(name, LONG).await, Err(error), "{name}");
            assert_eq!(error.to_string(), words);
        }
        dns.set("silent.test", DnsReply::Silence);
        let short = Duration::from_millis(50);
        assert_eq!(resolver.addresses("silent.test", short).await, Err(ResolveError::TimedOut));
        assert_eq!((resolver.figures.timed_out.get(), resolver.figures.not_found.get()), (1, 2));
    });
}

#[test]
fn same_questions_at_a_time_are_asked_once() {
    let dns = Dns::start();
    dns.set("a.test", DnsReply::Silence);
    let resolver = resolver(&dns);
    run(async {
        let mut waiting = Vec::new();
        for _ in 0..100 {
            let resolver = resolver.clone();
            waiting.push(tokio::spawn(async move { resolver.addresses("a.test", LONG).await }));
        }
        while dns.asked("a.test") < 2 {
            tokio::task::yield_now().await;
        }
        dns.set("a.test", DnsReply::Addresses(vec![ip(1)], 60));
        for one in waiting {
            assert_eq!(*one.await.unwrap().unwrap().addresses, [ip(1)]);
        }
        // The questions for both kinds of address, and once more each after the first went unanswered.
        assert!(dns.asked("a.test") <= 4);
    });
}

#[test]
fn an_answer_to_an_earlier_question_counts() {
    let dns = Dns::start();
    dns.set("slow.test", DnsReply::Late(Box::new(DnsReply::Addresses(vec![ip(1)], 60))));
    dns.set("broken.test", DnsReply::Late(Box::new(DnsReply::Code(2))));
    let resolver = resolver(&dns);
    run(async {
        assert_eq!(*resolver.addresses("slow.test", LONG).await.unwrap().addresses, [ip(1)]);
        assert_eq!(resolver.addresses("broken.test", LONG).await, Err(ResolveError::ServerFailure));
        assert_eq!((dns.asked("slow.test"), dns.asked("broken.test")), (2, 2));
    });
}

#[test]
fn a_cut_answer_is_asked_for_by_a_connection() {
    let dns = Dns::start();
    let many: Vec<IpAddr> = (1..=200).map(ip).collect();
    dns.set("many.test", DnsReply::Cut(Box::new(DnsReply::Addresses(many.clone(), 60))));
    run(async {
        assert_eq!(*resolver(&dns).addresses("many.test", LONG).await.unwrap().addresses, many);
        assert!(dns.connections() >= 1);
    });
}

#[test]
fn too_many_addresses_are_cut_off() {
    let dns = Dns::start();
    let many = (0..400u16).map(|n| Ipv4Addr::new(127, 1, (n / 250) as u8, (n % 250) as u8).into()).collect();
    dns.set("many.test", DnsReply::Cut(Box::new(DnsReply::Addresses(many, 60))));
    run(async {
        assert_eq!(resolver(&dns).addresses("many.test", LONG).await.unwrap().addresses.len(), MAX_ADDRESSES);
    });
}

#[test]
fn what_is_no_answer_is_not_taken_for_one() {
    let dns = Dns::start();
    dns.set("a.test", DnsReply::Noise(Box::new(DnsReply::Addresses(vec![ip(1)], 60))));
    run(async {
        assert_eq!(*resolver(&dns).addresses("a.test", LONG).await.unwrap().addresses, [ip(1)]);
    });
}

#[test]
fn aliases_are_followed_but_not_in_circles() {
    let dns = Dns::start();
    dns.set("www.test", DnsReply::Alias("a.test".into(), 60));
    dns.set("a.test", DnsReply::Addresses(vec![ip(1)], 5));
    dns.set("round.test", DnsReply::Alias("and.test".into(), 60));
    dns.set("and.test", DnsReply::Alias("round.test".into(), 60));
    let resolver = resolver(&dns);
    run(async {
        let found = resolver.addresses("www.test", LONG).await.unwrap();
        assert_eq!(*found.addresses, [ip(1)]);
        assert!(found.expires < Instant::now() + Duration::from_secs(6));
        assert_eq!(resolver.addresses("round.test", LONG).await, Err(ResolveError::NotFound));
    });
}

#[test]
fn the_next_name_server_is_asked_where_one_does_not_answer() {
    let (silent, refusing, good) = (Dns::start(), Dns::start(), Dns::start());
    let dead = Dns::start().address();
    silent.set("a.test", DnsReply::Silence);
    refusing.set("a.test", DnsReply::Code(5));
    good.set("a.test", DnsReply::Addresses(vec![ip(1)], 60));
    run(async {
        let resolver = resolver_of(&[dead, silent.address(), refusing.address(), good.address()], Some(Duration::ZERO));
        for _ in 0..4 {
            assert_eq!(*resolver.addresses("a.test", LONG).await.unwrap().addresses, [ip(1)]);
        }
        assert!(silent.asked("a.test") > 0 && refusing.asked("a.test") > 0);
    });
}

#[test]
fn services_come_in_the_order_of_their_priority() {
    let dns = Dns::start();
    let services = vec![
        (20, 0, 8082, "c.test".to_owned()),
        (10, 5, 8080, "a.test".to_owned()),
        (10, 1, 8081, "b.test".to_owned()),
    ];
    dns.set("_http._tcp.test", DnsReply::Services(services, 60));
    dns.set("_none._tcp.test", DnsReply::Services(vec![(0, 0, 0, String::new())], 60));
    let resolver = resolver(&dns);
    run(async {
        let found = resolver.services("_http._tcp.test", LONG).await.unwrap().services;
        let told: Vec<_> = found.iter().map(|one| (one.priority, one.weight, one.port, &*one.target)).collect();
        assert_eq!(told, [(10, 5, 8080, "a.test"), (10, 1, 8081, "b.test"), (20, 0, 8082, "c.test")]);
        assert_eq!(resolver.services("_none._tcp.test", LONG).await, Err(ResolveError::NotFound));
        assert_eq!(resolver.services("unknown.test", LONG).await, Err(ResolveError::NotFound));
    });
}

#[test]
fn the_system_knows_itself() {
    let (sender, answer) = std::sync::mpsc::channel();
    thread::run(move || {
        tokio::task::spawn_local(async move { sender.send(system::lookup("localhost").await).unwrap() });
    })
    .unwrap();
    assert!(answer.recv_timeout(LONG).unwrap().unwrap().iter().any(IpAddr::is_loopback));
}

#[test]
fn names_that_cannot_be_are_not_asked_for_nor_kept() {
    let dns = Dns::start();
    let resolver = resolver(&dns);
    run(async {
        for name in ["x".repeat(64 * 1024), "x.".repeat(128)] {
            assert_eq!(resolver.addresses(&name, LONG).await.unwrap_err(), ResolveError::Format);
            assert_eq!(resolver.services(&name, LONG).await.unwrap_err(), ResolveError::Format);
        }
        assert_eq!(resolver.cache.len(), 0);
    });
}

#[test]
fn questions_without_answers_share_a_few_sockets() {
    let dns = Dns::start();
    let names: Vec<String> = (0..300).map(|number| format!("silent{number}.test")).collect();
    for name in &names {
        dns.set(name, DnsReply::Silence);
    }
    dns.set("a.test", DnsReply::Addresses(vec![ip(1)], 60));
    let resolver = resolver(&dns);
    let sockets = |server| {
        let (sender, count) = std::sync::mpsc::channel();
        thread::run(move || sender.send(sockets::count(server)).unwrap()).unwrap();
        count.recv_timeout(LONG).unwrap()
    };
    run(async {
        let ask = |name: String| {
            let resolver = resolver.clone();
            tokio::spawn(async move { resolver.addresses(&name, LONG).await })
        };
        let waiting: Vec<_> = names.iter().cloned().map(ask).collect();
        // Each asks for both kinds of addresses.
        while names.iter().any(|name| dns.asked(name) < 2) {
            tokio::task::yield_now().await;
        }
        assert_eq!(sockets(dns.address()), sockets::SOCKETS);
        // The waiting questions do not block other questions.
        assert_eq!(*resolver.addresses("a.test", LONG).await.unwrap().addresses, [ip(1)]);
        for name in &names {
            dns.set(name, DnsReply::Code(2));
        }
        for one in waiting {
            assert_eq!(one.await.unwrap(), Err(ResolveError::ServerFailure));
        }
    });
    while sockets(dns.address()) > 0 {
        std::thread::yield_now();
    }
}

/// So many questions take longer than a name server has for an answer, so no question is asked again here and none has a time:
/// they are sent to a socket that nobody reads.
#[test]
fn there_are_no_more_sockets_when_all_have_asked_their_questions() {
    let unread = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let server = unread.local_addr().unwrap();
    let asked_by_all = sockets::MOST_SOCKETS * sockets::TURNS as usize;
    let questions = async {
        let mut questions = Vec::new();
        for (number, sockets) in [(300, sockets::SOCKETS), (asked_by_all + 300, sockets::MOST_SOCKETS)] {
            while questions.len() < number {
                questions.push(tokio::task::spawn_local(async move {
                    let mut question = Message::query();
                    question.add_query(Query::query(Name::from_ascii("a.test.").unwrap(), RecordType::A));
                    sockets::exchange(server, &mut question).await.map(drop)
                }));
            }
            while sockets::waiting(server) < number {
                tokio::task::yield_now().await;
            }
            assert_eq!(sockets::count(server), sockets);
        }
        questions.iter().for_each(tokio::task::JoinHandle::abort);
        while sockets::count(server) > 0 {
            tokio::task::yield_now().await;
        }
    };
    run(async { tokio::task::LocalSet::new().run_until(questions).await });
}
