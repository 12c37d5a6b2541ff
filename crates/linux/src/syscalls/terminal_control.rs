//! What the ends of a terminal are told and asked: `ioctl`.
//!
//! Always true: a program in the background changes nothing of its terminal.

use super::terminals::{SIGTTOU, check_foreground, open_slave};
use super::{Answer, Call, Stop};
use crate::errno::Errno;
use crate::signal::{SIGCONT, SIGHUP};
use crate::vfs::terminal::{Settings, VSTART, VSTOP};

const SIGWINCH: u8 = 28;

/// Makes a terminal the controlling one of the caller's session.
pub(crate) fn take_control(call: &mut Call, id: u32) -> Result<(), Errno> {
    let (own, session, group) = {
        let process = call.process();
        (process.id.0, process.session, process.group)
    };
    let taken = call.kernel.terminal_of_session(session).map(|(id, _)| id);
    if taken == Some(id) && own == session {
        return Ok(());
    }
    let terminal = call.kernel.open.terminals.get_mut(id).ok_or(Errno::EIO)?;
    if own != session || taken.is_some() || terminal.session.is_some() {
        return Err(Errno::EPERM);
    }
    (terminal.session, terminal.foreground) = (Some(session), group);
    Ok(())
}

/// `ioctl` on an end of a terminal.
pub(crate) fn control(
    call: &mut Call,
    (id, master): (u32, bool),
    request: u64,
    address: u64,
) -> Answer {
    let terminal = call.kernel.open.terminals.get(id).ok_or(Errno::EIO)?;
    if !master && !terminal.has_master {
        return Err(Errno::EIO.into());
    }
    match request {
        0x5401..=0x5408 | 0x802c_542a | 0x402c_542b..=0x402c_542d => {
            control_settings(call, (id, master), request, address)?;
        }
        // TCSBRK, TIOCEXCL, TIOCNXCL, TIOCSETD, TCSBRKP; TCXONC.
        0x5409 | 0x540c | 0x540d | 0x5423 | 0x5425 => {}
        0x540a => control_flow(call, id, master, address)?,
        // TCFLSH.
        0x540b => {
            if address > 2 {
                return Err(Errno::EINVAL.into());
            }
            check_change(call, id, master)?;
            if let Some(terminal) = call.kernel.open.terminals.get_mut(id) {
                let (input, output) = (address != 1, address != 0);
                // The master's input is what the slave wrote.
                let (input, output) = if master {
                    (output, input)
                } else {
                    (input, output)
                };
                terminal.flush(input, output);
            }
        }
        // TIOCSCTTY.
        0x540e if master => return Err(Errno::EPERM.into()),
        0x540e => take_control(call, id)?,
        // TIOCGPGRP, TIOCGSID.
        0x540f | 0x5429 => {
            let own = terminal.session == Some(call.process().session);
            if !own && !master || terminal.session.is_none() && request == 0x5429 {
                return Err(Errno::ENOTTY.into());
            }
            let session = terminal.session.unwrap_or(0);
            let answer = if request == 0x540f {
                terminal.foreground
            } else {
                session
            };
            call.write(address, &answer.to_le_bytes())?;
        }
        // TIOCSPGRP.
        0x5410 => set_foreground(call, id, master, address)?,
        // TIOCOUTQ.
        0x5411 => {
            let count = if master {
                0
            } else {
                terminal.output.len() as u32
            };
            call.write(address, &count.to_le_bytes())?;
        }
        // TIOCGWINSZ.
        0x5413 => {
            let bytes = terminal.window.map(u16::to_le_bytes).concat();
            call.write(address, &bytes)?;
        }
        // TIOCSWINSZ.
        0x5414 => {
            let word = call.read_u64(address)?;
            let window = [0, 16, 32, 48].map(|shift| (word >> shift) as u16);
            if let Some(terminal) = call.kernel.open.terminals.get_mut(id) {
                let changed = std::mem::replace(&mut terminal.window, window) != window;
                let foreground = terminal.foreground;
                if changed && foreground != 0 {
                    call.kernel.signal_group(foreground, SIGWINCH);
                }
            }
        }
        // FIONREAD.
        0x541b => {
            let count = if master {
                terminal.output.len()
            } else {
                terminal.readable_bytes(usize::MAX)
            };
            call.write(address, &(count as u32).to_le_bytes())?;
        }
        // TIOCNOTTY.
        0x5422 => {
            let (own, session) = (call.process, call.process().session);
            if terminal.session != Some(session) {
                return Err(Errno::ENOTTY.into());
            }
            if own.0 == session {
                let foreground = terminal.foreground;
                if let Some(terminal) = call.kernel.open.terminals.get_mut(id) {
                    (terminal.session, terminal.foreground) = (None, 0);
                }
                for signal in [SIGHUP, SIGCONT] {
                    call.kernel.signal_group(foreground, signal);
                }
            }
        }
        // TIOCGETD.
        0x5424 => call.write(address, &0_u32.to_le_bytes())?,
        // TIOCGLCKTRMIOS: no setting is locked, and TIOCSLCKTRMIOS is a superuser's.
        0x5456 => call.write(address, &[0; Settings::BYTES])?,
        0x5457 => return Err(Errno::EPERM.into()),
        _ if master => return control_master(call, id, request, address),
        _ => return Err(Errno::ENOTTY.into()),
    }
    call.kernel.wake_all_file_waiters();
    Ok(0)
}

/// Reads or writes the settings.
fn control_settings(
    call: &mut Call,
    (id, master): (u32, bool),
    request: u64,
    address: u64,
) -> Result<(), Stop> {
    const TCSETS: u64 = 0x5402;
    const TCSETSF: u64 = 0x5404;
    const TCGETA: u64 = 0x5405;
    const TCSETA: u64 = 0x5406;
    const TCSETAF: u64 = 0x5408;
    const TCSETS2: u64 = 0x402c_542b;
    const TCSETSF2: u64 = 0x402c_542d;
    let terminal = call.kernel.open.terminals.get(id).ok_or(Errno::EIO)?;
    match request {
        // TCGETS, TCGETS2.
        0x5401 | 0x802c_542a => {
            let mut bytes = terminal.settings.to_bytes().to_vec();
            if request != 0x5401 {
                bytes.extend([38400_u32.to_le_bytes(); 2].concat());
            }
            call.write(address, &bytes)?;
        }
        TCSETS..=TCSETSF | TCSETS2..=TCSETSF2 => {
            let mut bytes = [0; Settings::BYTES];
            let kernel = &mut *call.kernel;
            kernel.copy_in(call.machine, call.space, address, &mut bytes)?;
            check_change(call, id, master)?;
            if let Some(terminal) = call.kernel.open.terminals.get_mut(id) {
                if matches!(request, TCSETSF | TCSETSF2) {
                    terminal.flush(true, false);
                }
                terminal.set(Settings::from_bytes(&bytes));
            }
        }
        TCGETA => {
            let bytes = terminal.settings.to_old_bytes();
            call.write(address, &bytes)?;
        }
        TCSETA..=TCSETAF => {
            let mut bytes = [0; Settings::OLD_BYTES];
            let kernel = &mut *call.kernel;
            kernel.copy_in(call.machine, call.space, address, &mut bytes)?;
            check_change(call, id, master)?;
            if let Some(terminal) = call.kernel.open.terminals.get_mut(id) {
                if request == TCSETAF {
                    terminal.flush(true, false);
                }
                terminal.set(terminal.settings.with_old_bytes(&bytes));
            }
        }
        _ => return Err(Errno::ENOTTY.into()),
    }
    Ok(())
}

/// `TCXONC`: holds the slave's output back or lets it go on, or asks that of whoever holds the
/// master by a character. The master's own output is never held back.
fn control_flow(call: &mut Call, id: u32, master: bool, action: u64) -> Result<(), Stop> {
    const TCOOFF: u64 = 0;
    const TCIOFF: u64 = 2;
    const TCION: u64 = 3;
    check_change(call, id, master)?;
    if action > TCION {
        return Err(Errno::EINVAL.into());
    }
    let terminal = call.kernel.open.terminals.get_mut(id).ok_or(Errno::EIO)?;
    match action {
        _ if master => {}
        0 | 1 => terminal.held = action == TCOOFF,
        _ => {
            let which = if action == TCIOFF { VSTOP } else { VSTART };
            let character = terminal.settings.special[which];
            if character != 0 {
                terminal.output.push_back(character);
                terminal.activity += 1;
            }
        }
    }
    Ok(())
}

/// What only the master can be asked.
fn control_master(call: &mut Call, id: u32, request: u64, address: u64) -> Answer {
    match request {
        // TIOCGPTN.
        0x8004_5430 => call.write(address, &id.to_le_bytes())?,
        // TIOCSPTLCK.
        0x4004_5431 => {
            let locked = call.read_u32(address)? != 0;
            if let Some(terminal) = call.kernel.open.terminals.get_mut(id) {
                terminal.locked = locked;
            }
        }
        // TIOCGPTLCK.
        0x8004_5439 => {
            let locked = call.kernel.open.terminals.get(id).is_some_and(|t| t.locked);
            call.write(address, &u32::from(locked).to_le_bytes())?;
        }
        // TIOCPKT.
        0x5420 => {
            let packets = call.read_u32(address)? != 0;
            if let Some(terminal) = call.kernel.open.terminals.get_mut(id) {
                terminal.packets = packets;
            }
        }
        // TIOCGPKT.
        0x8004_5438 => {
            let terminal = call.kernel.open.terminals.get(id);
            let packets = terminal.is_some_and(|terminal| terminal.packets);
            call.write(address, &u32::from(packets).to_le_bytes())?;
        }
        // TIOCGPTPEER: the lock is for names alone.
        0x5441 => {
            let terminal = call.kernel.open.terminals.get_mut(id).ok_or(Errno::EIO)?;
            let locked = std::mem::replace(&mut terminal.locked, false);
            let number = open_slave(call, id, address as u32);
            if let Some(terminal) = call.kernel.open.terminals.get_mut(id) {
                terminal.locked = locked;
            }
            return number;
        }
        _ => return Err(Errno::ENOTTY.into()),
    }
    Ok(0)
}

/// A program in the background may not change its terminal.
fn check_change(call: &mut Call, id: u32, master: bool) -> Result<(), Stop> {
    if master {
        return Ok(());
    }
    check_foreground(call, id, SIGTTOU)
}

fn set_foreground(call: &mut Call, id: u32, master: bool, address: u64) -> Result<(), Stop> {
    let session = call.process().session;
    let controls = call.kernel.open.terminals.get(id);
    let controls = controls.is_some_and(|terminal| terminal.session == Some(session));
    if master || !controls {
        return Err(Errno::ENOTTY.into());
    }
    check_change(call, id, master)?;
    let group = call.read_u32(address)?;
    if group as i32 <= 0 {
        return Err(Errno::EINVAL.into());
    }
    let mut live = call.kernel.processes.live.values();
    let member = live
        .find(|process| process.group == group)
        .ok_or(Errno::ESRCH)?;
    if member.session != session {
        return Err(Errno::EPERM.into());
    }
    if let Some(terminal) = call.kernel.open.terminals.get_mut(id) {
        terminal.foreground = group;
    }
    Ok(())
}
