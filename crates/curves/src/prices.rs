//! What AWS would charge, with the prices of the cost model (`infra/cost/prices.json`).

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use crate::Result;

/// The region of the cost model's environments.
pub(crate) const REGION: &str = "ap-northeast-1";

const MILLION: f64 = 1e6;

/// How much of what a unit takes beside the store, by the names of the prices.
pub(crate) type Extras = &'static [(&'static str, f64)];

/// Dollars by the names of the prices.
#[derive(Clone, Debug)]
pub(crate) struct Prices(BTreeMap<String, f64>);

#[derive(Deserialize)]
struct File {
    #[serde(rename = "ap-northeast-1")]
    here: BTreeMap<String, f64>,
}

impl Prices {
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let File { here } = serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Self(here))
    }

    /// Dollars per million units; `None` if a unit takes nothing that is paid for.
    pub(crate) fn per_million(&self, reads: f64, writes: f64, extras: Extras) -> Result<Option<f64>> {
        let mut dollars = 0.0;
        for (name, quantity) in [("dynamodbRead", reads), ("dynamodbWrite", writes)].iter().chain(extras) {
            let price = self.0.get(*name);
            let price = price.ok_or_else(|| format!("infra/cost/prices.json has no price {name} for {REGION}"))?;
            dollars += price * quantity;
        }
        Ok((dollars > 0.0).then_some(dollars * MILLION))
    }
}
