//! The little of route netlink that `getifaddrs` and `if_nametoindex` ask for: `lo`, its two
//! addresses, and an error for everything else.

use super::interfaces::{FLAGS_LONG, HARDWARE_TYPE, INDEX, MTU, NAME};
use crate::errno::Errno;

const RTM_NEWLINK: u16 = 16;
const RTM_GETLINK: u16 = 18;
const RTM_NEWADDR: u16 = 20;
const RTM_GETADDR: u16 = 22;
const RTM_GETROUTE: u16 = 26;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NLM_F_MULTI: u16 = 2;
const NLM_F_ACK: u16 = 4;
const NLM_F_DUMP: u16 = 0x300;
const HEADER_BYTES: usize = 16;

/// One request: a `struct nlmsghdr` and what follows it.
struct Request<'a> {
    kind: u16,
    flags: u16,
    sequence: u32,
    body: &'a [u8],
    header: &'a [u8],
}

fn request(bytes: &[u8]) -> Option<(Request<'_>, &[u8])> {
    let half = |at: usize| Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
    let word = |at: usize| Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
    let length = word(0)? as usize;
    let whole = bytes.get(..length).filter(|_| length >= HEADER_BYTES)?;
    let request = Request {
        kind: half(4)?,
        flags: half(6)?,
        sequence: word(8)?,
        body: &whole[HEADER_BYTES..],
        header: &whole[..HEADER_BYTES],
    };
    let rest = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    Some((request, rest))
}

/// A message with its header, padded.
fn message(kind: u16, flags: u16, sequence: u32, port: u32, body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(((HEADER_BYTES + body.len()) as u32).to_le_bytes());
    bytes.extend(kind.to_le_bytes());
    bytes.extend(flags.to_le_bytes());
    bytes.extend(sequence.to_le_bytes());
    bytes.extend(port.to_le_bytes());
    bytes.extend(body);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// A `struct rtattr`.
fn attribute(out: &mut Vec<u8>, kind: u16, value: &[u8]) {
    out.extend(((4 + value.len()) as u16).to_le_bytes());
    out.extend(kind.to_le_bytes());
    out.extend(value);
    out.resize(out.len().next_multiple_of(4), 0);
}

/// `struct ifinfomsg` of `lo` and its attributes.
fn link() -> Vec<u8> {
    let mut body = vec![0; 2];
    body.extend(HARDWARE_TYPE.to_le_bytes());
    body.extend(INDEX.to_le_bytes());
    body.extend(FLAGS_LONG.to_le_bytes());
    body.extend([0; 4]);
    attribute(&mut body, 3, NAME);
    attribute(&mut body, 13, &1000_u32.to_le_bytes());
    attribute(&mut body, 16, &[0]);
    attribute(&mut body, 4, &MTU.to_le_bytes());
    attribute(&mut body, 1, &[0; 6]);
    attribute(&mut body, 2, &[0; 6]);
    body
}

/// `struct ifaddrmsg` of an address of `lo` and its attributes.
fn address(family: u8, prefix: u8, bytes: &[u8]) -> Vec<u8> {
    const PERMANENT: u8 = 0x80;
    const SCOPE_HOST: u8 = 254;
    let mut body = vec![family, prefix, PERMANENT, SCOPE_HOST];
    body.extend(INDEX.to_le_bytes());
    attribute(&mut body, 1, bytes);
    if family == 2 {
        attribute(&mut body, 2, bytes);
        attribute(&mut body, 3, NAME);
    }
    attribute(&mut body, 8, &u32::from(PERMANENT).to_le_bytes());
    body
}

/// What is listed for a request: the kind of the messages, and their bodies.
fn listed(request: &Request) -> Option<(u16, Vec<Vec<u8>>)> {
    let family = request.body.first().copied().unwrap_or(0);
    match request.kind {
        RTM_GETLINK => Some((RTM_NEWLINK, vec![link()])),
        RTM_GETADDR => {
            let v4 = (family != 10).then(|| address(2, 8, &[127, 0, 0, 1]));
            let v6 = (family != 2).then(|| address(10, 128, &super::address::LOOPBACK_V6));
            Some((RTM_NEWADDR, v4.into_iter().chain(v6).collect()))
        }
        // No route leads anywhere.
        RTM_GETROUTE => Some((0, Vec::new())),
        _ => None,
    }
}

/// The answers to what was sent, each a datagram of its own.
pub(crate) fn answers(mut bytes: &[u8], port: u32) -> Vec<Vec<u8>> {
    let mut answers = Vec::new();
    while let Some((request, rest)) = request(bytes) {
        bytes = rest;
        let sequence = request.sequence;
        let mut error = |number: u16| {
            let mut body = (-i32::from(number)).to_le_bytes().to_vec();
            body.extend(request.header);
            answers.push(message(NLMSG_ERROR, 0, sequence, port, &body));
        };
        let dump = request.flags & NLM_F_DUMP == NLM_F_DUMP;
        match listed(&request) {
            Some((kind, bodies)) if dump => {
                let all = bodies.iter();
                let mut whole: Vec<u8> = all
                    .flat_map(|body| message(kind, NLM_F_MULTI, sequence, port, body))
                    .collect();
                whole.extend(message(NLMSG_DONE, NLM_F_MULTI, sequence, port, &[0; 4]));
                answers.push(whole);
            }
            // A single link may be asked for by number or name.
            Some((kind, bodies)) if request.kind == RTM_GETLINK => {
                let named = request.body.get(4..8) == Some(&INDEX.to_le_bytes())
                    || request.body.windows(NAME.len()).any(|part| part == NAME);
                match bodies.first().filter(|_| named) {
                    Some(body) => answers.push(message(kind, 0, sequence, port, body)),
                    None => error(Errno::ENODEV.0),
                }
            }
            None | Some(_) => error(Errno::EOPNOTSUPP.0),
        }
        if request.flags & NLM_F_ACK != 0 && !dump {
            let mut body = vec![0; 4];
            body.extend(request.header);
            answers.push(message(NLMSG_ERROR, 0, sequence, port, &body));
        }
    }
    answers
}
