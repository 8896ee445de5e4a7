//! The figures of all SDKs, one after the other: a machine that does something else measures nothing.

use std::{collections::BTreeMap, fs, io, path::Path, sync::Arc};

use serde_json::json;

use crate::{
    play::{Figure, Player, Stop},
    say,
    scenario::{Route, Scenario},
    sdk::Sdk,
    world::World,
};

/// The figures of one SDK; those that could not be taken are missing.
pub(crate) type Figures = BTreeMap<Figure, f64>;

/// What is told of a figure.
const COLUMNS: [(Figure, &str, usize); 6] = [
    (Figure::JobsPerSecond, "jobs/s", 0),
    (Figure::CancelMs, "lost→cancelled ms", 1),
    (Figure::ReconnectMs, "reconnect ms", 0),
    (Figure::DrainMs, "drain 100 ms", 0),
    (Figure::IdleMib, "idle MiB", 1),
    (Figure::HeldMib, "1,000 held MiB", 1),
];

/// Measures every SDK. True: every figure could be taken.
pub(crate) async fn run(sdks: &[Arc<Sdk>], json: &Path) -> io::Result<bool> {
    let mut all = Vec::new();
    let mut well = true;
    for sdk in sdks {
        let mut figures = Figures::new();
        for route in [Route::Scripted, Route::Direct] {
            match Box::pin(measure(sdk, route)).await {
                Ok(taken) => figures.extend(taken),
                Err(why) => {
                    well = false;
                    say(&format!("{}: {why}", sdk.name));
                }
            }
        }
        say(&line(&sdk.name, |figure, digits| {
            figures
                .get(&figure)
                .map_or_else(|| "–".to_owned(), |value| format!("{value:.digits$}"))
        }));
        all.push((sdk.clone(), figures));
    }
    say(&table(&all));
    let sdks = all.iter().map(|(sdk, figures)| {
        json!({"sdk": sdk.name, "version": sdk.version, "runtime": sdk.runtime, "figures": figures})
    });
    let text = json!({ "sdks": sdks.collect::<Vec<_>>() });
    fs::write(json, format!("{text:#}\n"))?;
    Ok(well)
}

async fn measure(sdk: &Sdk, route: Route) -> Result<Vec<(Figure, f64)>, String> {
    let world = World::start().await;
    let scenario = Scenario::blank();
    let queue = format!("{}-figures", sdk.name);
    let player = Player::new(&scenario, sdk, route, &world, &queue).await?;
    let measured = match route {
        Route::Scripted => player.measure_scripted().await,
        Route::Direct | Route::Proxied => player.measure().await,
    };
    measured.map_err(|stop| match stop {
        Stop::Failed(why) | Stop::Unsupported(why) => why,
    })
}

fn table(all: &[(Arc<Sdk>, Figures)]) -> String {
    let mut text = format!("\n{:<12}", "");
    for (_, title, _) in COLUMNS {
        text.push_str(&format!(" {title:>18}"));
    }
    for (sdk, figures) in all {
        text.push('\n');
        text.push_str(&line(&sdk.name, |figure, digits| {
            figures
                .get(&figure)
                .map_or_else(|| "–".to_owned(), |value| format!("{value:.digits$}"))
        }));
    }
    text
}

fn line(name: &str, cell: impl Fn(Figure, usize) -> String) -> String {
    let mut text = format!("{name:<12}");
    for (figure, _, digits) in COLUMNS {
        text.push_str(&format!(" {:>18}", cell(figure, digits)));
    }
    text
}
