//! DNS rebinding of `http.fetch`: a name server that says something else each time it is asked, with the system's
//! resolver between.
//!
//! The test runs again in network and mount namespaces of its own, where it may answer on port 53 and own a public
//! address. Without the right to make these, or without `unshare` and `ip`, it says so and passes.

#![cfg(all(target_os = "linux", feature = "http"))]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a failed test")]

use http::Method;
use opcell_tools::http::{FetchLimits, HttpClient, HttpRule};
use opcell_types::{TouchLog, Value};
use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, UdpSocket},
};

/// Set in the namespaces.
const INSIDE: &str = "OPCELL_TEST_REBINDING";

/// An address of the public server, which no one else answers for in a network of its own.
const PUBLIC: Ipv4Addr = Ipv4Addr::new(93, 184, 216, 34);

const HTTP_PORT: u16 = 80;

const SET_UP: &str = "set -e
ip link set lo up
ip address add 93.184.216.34/32 dev lo
printf 'nameserver 127.0.0.1\\noptions attempts:1\\n' > \"$1\"/resolv.conf
printf 'hosts: files dns\\n' > \"$1\"/nsswitch.conf
mount --bind \"$1\"/resolv.conf /etc/resolv.conf
mount --bind \"$1\"/nsswitch.conf /etc/nsswitch.conf
echo set-up >&2
shift
exec \"$@\"";

#[test]
fn the_address_that_is_checked_is_the_one_that_is_connected_to() {
    if std::env::var_os(INSIDE).is_some() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        return runtime.block_on(attacked());
    }
    let folder = tempfile::tempdir().unwrap();
    let mut inside = Command::new("unshare");
    inside.args(["--mount", "--net", "sh", "-c", SET_UP, "sh"]).arg(folder.path());
    inside.arg(std::env::current_exe().unwrap()).args(["--nocapture", "--test-threads=1"]).env(INSIDE, "1");
    let output = match inside.output() {
        Ok(output) => output,
        Err(error) => return skipped(&format!("`unshare` does not start: {error}")),
    };
    let said = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    if !said.contains("set-up") {
        return skipped(&said);
    }
    assert!(output.status.success(), "{said}");
}

#[allow(clippy::print_stderr, reason = "a test that did not run must not look like one that did")]
fn skipped(why: &str) {
    eprintln!("SKIPPED: DNS rebinding needs namespaces of its own (run it as root): {}", why.trim());
}

/// The answers for a name, in order; the last one repeats.
type Answers = BTreeMap<&'static str, Vec<Vec<IpAddr>>>;

fn names() -> Answers {
    let (public, own): (IpAddr, IpAddr) = (PUBLIC.into(), Ipv4Addr::LOCALHOST.into());
    let metadata: IpAddr = Ipv4Addr::new(169, 254, 169, 254).into();
    [
        ("honest", vec![vec![public]]),
        // What was checked, and what is there when it is asked again.
        ("turns", vec![vec![public], vec![own]]),
        ("turns-back", vec![vec![own], vec![public], vec![own]]),
        ("both", vec![vec![public, own]]),
        ("both-otherwise", vec![vec![own, public]]),
        ("own", vec![vec![own]]),
        ("mapped", vec![vec![IpAddr::V6(Ipv4Addr::LOCALHOST.to_ipv6_mapped())]]),
        ("own-six", vec![vec![IpAddr::V6(Ipv6Addr::LOCALHOST)]]),
        ("any", vec![vec![Ipv4Addr::UNSPECIFIED.into()]]),
        ("metadata", vec![vec![metadata], vec![public, metadata]]),
    ]
    .into()
}

/// Answers on port 53 for the names, with a time to live of 0. Both kinds of address are one turn.
async fn name_server(asked: Arc<AtomicUsize>) {
    let socket = UdpSocket::bind(("127.0.0.1", 53)).await.unwrap();
    tokio::spawn(async move {
        let (all, mut turns) = (names(), BTreeMap::<(String, u16), usize>::new());
        let mut query = [0; 512];
        while let Ok((length, from)) = socket.recv_from(&mut query).await {
            let query = &query[..length];
            let (mut at, mut labels) = (12, Vec::new());
            while query[at] != 0 {
                let end = at + 1 + usize::from(query[at]);
                labels.push(String::from_utf8_lossy(&query[at + 1..end]).to_ascii_lowercase());
                at = end;
            }
            let kind = u16::from_be_bytes([query[at + 1], query[at + 2]]);
            let answers = all.get(labels[0].as_str()).map_or(&[][..], Vec::as_slice);
            let turn = turns.entry((labels.join("."), kind)).or_default();
            let said = answers.get((*turn).min(answers.len().saturating_sub(1))).cloned().unwrap_or_default();
            *turn += 1;
            asked.fetch_add(1, SeqCst);
            let wanted = |address: &&IpAddr| matches!((kind, address), (1, IpAddr::V4(_)) | (28, IpAddr::V6(_)));
            let said: Vec<&IpAddr> = said.iter().filter(wanted).collect();
            let mut answer = query[..2].to_vec();
            answer.extend([0x81, 0x80, 0, 1, 0, u8::try_from(said.len()).unwrap(), 0, 0, 0, 0]);
            answer.extend(&query[12..at + 5]);
            for address in said {
                answer.extend([0xc0, 12]);
                answer.extend(kind.to_be_bytes());
                answer.extend([0, 1, 0, 0, 0, 0]);
                let bytes = match address {
                    IpAddr::V4(address) => address.octets().to_vec(),
                    IpAddr::V6(address) => address.octets().to_vec(),
                };
                answer.extend(u16::try_from(bytes.len()).unwrap().to_be_bytes());
                answer.extend(bytes);
            }
            socket.send_to(&answer, from).await.unwrap();
        }
    });
}

/// A server at an address that counts its connections. `/again` is a redirect to the same name.
async fn server(address: IpAddr) -> Arc<AtomicUsize> {
    let listener = TcpListener::bind(SocketAddr::new(address, HTTP_PORT)).await.unwrap();
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = connections.clone();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            counted.fetch_add(1, SeqCst);
            tokio::spawn(async move {
                let (mut head, mut part) = (Vec::new(), [0; 1_024]);
                while !head.windows(4).any(|end| end == b"\r\n\r\n") {
                    match stream.read(&mut part).await {
                        Ok(read @ 1..) => head.extend_from_slice(&part[..read]),
                        _ => return,
                    }
                }
                let answer = match head.starts_with(b"GET /again") {
                    true => "HTTP/1.1 302 Found\r\nlocation: /\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
                    false => "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nhi",
                };
                let _ = stream.write_all(answer.as_bytes()).await;
            });
        }
    });
    connections
}

async fn attacked() {
    let asked = Arc::new(AtomicUsize::new(0));
    name_server(asked.clone()).await;
    let public = server(PUBLIC.into()).await;
    let own = server(Ipv4Addr::LOCALHOST.into()).await;
    let own_six = server(Ipv6Addr::LOCALHOST.into()).await;
    let client = HttpClient::new(FetchLimits::default());
    let fetch = async |name: &str, path: &str| {
        let origin = format!("http://{name}.test");
        let rule = HttpRule::new(vec![origin.parse().unwrap()], vec![Method::GET]);
        let arguments = Value::object([("url", Value::from(format!("{origin}{path}")))]);
        client.fetch(&[rule], &arguments, &TouchLog::default()).await
    };
    let honest = fetch("honest", "/").await.unwrap();
    assert_eq!(honest.get("body").and_then(Value::as_str), Some("hi"), "{honest:?}");
    assert_eq!(public.load(SeqCst), 1);
    for name in names().into_keys() {
        for path in ["/", "/again", "/", "/again", "/"] {
            let _ = fetch(name, path).await;
        }
    }
    assert!(fetch("own", "/").await.is_err() && fetch("metadata", "/").await.is_err());
    assert!(asked.load(SeqCst) > 50, "the system's resolver asked the test's name server {} times", asked.load(SeqCst));
    assert!(public.load(SeqCst) > 5, "{} connections", public.load(SeqCst));
    assert_eq!((own.load(SeqCst), own_six.load(SeqCst)), (0, 0), "connections to this machine");
}
