//! Steps that act on the real servers and on the network.

use std::time::Duration;

use keywork_testkit::Mode;
use serde_json::json;

use super::{Played, Player, failed};
use crate::scenario::{Power, ProxyMode};

impl Player<'_> {
    pub(super) async fn server(&mut self, what: Power) -> Played {
        self.trace.note("server", &json!(format!("{what:?}")));
        let server = &self.world.server;
        match what {
            Power::Kill => server.kill(),
            Power::Terminate => {
                let ended = server.terminate().await;
                if !ended.is_some_and(|status| status.success()) {
                    return failed(format!("the server did not end well: {ended:?}"));
                }
            }
            Power::BeginToTerminate => server.begin_to_terminate(),
            Power::Restart => server.restart().await,
            Power::Stop => server.pause(),
            Power::Continue => server.resume(),
        }
        self.trace.note("server", &json!(format!("{what:?} done")));
        Ok(())
    }

    pub(super) async fn nats(&mut self, what: Power) -> Played {
        self.trace.note("nats", &json!(format!("{what:?}")));
        let nats = &self.world.nats;
        match what {
            Power::Kill => nats.kill(),
            Power::Terminate | Power::BeginToTerminate => nats.stop().await,
            Power::Restart => nats.restart().await,
            Power::Stop => nats.pause(),
            Power::Continue => nats.resume(),
        }
        Ok(())
    }

    pub(super) fn set_proxy(&mut self, mode: ProxyMode, ms: u64) -> Played {
        self.trace.note("proxy", &json!(format!("{mode:?}")));
        self.proxy.set(match mode {
            ProxyMode::Pass => Mode::Pass,
            ProxyMode::Delay => Mode::Delay(Duration::from_millis(ms)),
            ProxyMode::BlackHole => Mode::BlackHole,
            ProxyMode::HoldFromServer => Mode::HoldFromServer,
            ProxyMode::AnswerPings => Mode::AnswerPings,
            ProxyMode::Reset => Mode::Reset,
        });
        Ok(())
    }
}
