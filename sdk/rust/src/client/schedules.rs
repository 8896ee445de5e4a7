//! Recurring submits: keeping them at the server, and looking at them.

use std::time::SystemTime;

use super::{Client, Page, Submit};
use crate::{Error, raw, wire};

/// A submit that the server makes again and again.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Schedule {
    /// The name.
    pub name: String,
    /// `@every 30s`, or six cron fields: second, minute, hour, day of month, month, day of week.
    pub expression: String,
    /// IANA time zone of a cron expression. Empty: UTC.
    pub time_zone: String,
    /// What is submitted each time. A `request_id` is refused.
    pub submit: Submit,
    /// When it fires next; the server says.
    pub next_at: Option<SystemTime>,
}

impl Schedule {
    /// A schedule to put, in UTC.
    pub fn new(name: impl Into<String>, expression: impl Into<String>, submit: Submit) -> Self {
        Self {
            name: name.into(),
            expression: expression.into(),
            time_zone: String::new(),
            submit,
            next_at: None,
        }
    }

    /// The time zone that a cron expression means, such as `Europe/Berlin`.
    #[must_use]
    pub fn time_zone(mut self, zone: impl Into<String>) -> Self {
        self.time_zone = zone.into();
        self
    }
}

impl TryFrom<Schedule> for raw::Schedule {
    type Error = Error;

    fn try_from(schedule: Schedule) -> Result<Self, Error> {
        Ok(Self {
            name: schedule.name,
            expression: schedule.expression,
            time_zone: schedule.time_zone,
            submit: Some(schedule.submit.into_request()?),
            next_at: None,
        })
    }
}

impl From<raw::Schedule> for Schedule {
    fn from(wire: raw::Schedule) -> Self {
        Self {
            name: wire.name,
            expression: wire.expression,
            time_zone: wire.time_zone,
            submit: wire.submit.unwrap_or_default().into(),
            next_at: wire.next_at.and_then(wire::to_time),
        }
    }
}

impl Client {
    /// Makes or replaces a schedule.
    ///
    /// # Errors
    /// It was refused, or the call failed.
    pub async fn put_schedule(&self, schedule: Schedule) -> Result<Schedule, Error> {
        let request = raw::PutScheduleRequest {
            schedule: Some(schedule.try_into()?),
        };
        let answer = self
            .schedules(async |mut client| client.put_schedule(request).await)
            .await?;
        Ok(answer.schedule.unwrap_or_default().into())
    }

    /// One schedule.
    ///
    /// # Errors
    /// There is none of that name, or the call failed.
    pub async fn get_schedule(&self, name: impl Into<String>) -> Result<Schedule, Error> {
        let request = raw::GetScheduleRequest { name: name.into() };
        let answer = self
            .schedules(async |mut client| client.get_schedule(request).await)
            .await?;
        Ok(answer.schedule.unwrap_or_default().into())
    }

    /// A page of all schedules, by name.
    ///
    /// # Errors
    /// The call failed.
    pub async fn list_schedules(&self, page: Page) -> Result<(Vec<Schedule>, Option<Page>), Error> {
        let request = raw::ListSchedulesRequest {
            page_size: page.size,
            page_token: page.token.clone(),
        };
        let answer = self
            .schedules(async |mut client| client.list_schedules(request).await)
            .await?;
        let schedules = answer.schedules.into_iter().map(Schedule::from).collect();
        Ok((schedules, page.next(answer.next_page_token)))
    }

    /// Ends a schedule. Jobs that it submitted stay.
    ///
    /// # Errors
    /// There is none of that name, or the call failed.
    pub async fn delete_schedule(&self, name: impl Into<String>) -> Result<(), Error> {
        let request = raw::DeleteScheduleRequest { name: name.into() };
        self.schedules(async |mut client| client.delete_schedule(request).await)
            .await
            .map(drop)
    }
}
