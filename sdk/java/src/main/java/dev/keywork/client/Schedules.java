package dev.keywork.client;

import dev.keywork.internal.v1.DeleteScheduleRequest;
import dev.keywork.internal.v1.GetScheduleRequest;
import dev.keywork.internal.v1.ListSchedulesRequest;
import dev.keywork.internal.v1.PutScheduleRequest;
import dev.keywork.internal.v1.SchedulesGrpc;

/** Recurring submits. {@link KeyworkClient#schedules()} has it. */
public final class Schedules {
  private final OneCall calls;

  Schedules(OneCall calls) {
    this.calls = calls;
  }

  /**
   * Makes or replaces a schedule.
   *
   * @param schedule the schedule
   * @return the schedule as kept
   */
  public Schedule put(Schedule schedule) {
    PutScheduleRequest request = PutScheduleRequest.newBuilder().setSchedule(schedule.wire()).build();
    return Schedule.read(calls.once(SchedulesGrpc.getPutScheduleMethod(), request).getSchedule());
  }

  /**
   * One schedule.
   *
   * @param name the name
   * @return the schedule
   */
  public Schedule get(String name) {
    GetScheduleRequest request = GetScheduleRequest.newBuilder().setName(name).build();
    return Schedule.read(calls.once(SchedulesGrpc.getGetScheduleMethod(), request).getSchedule());
  }

  /**
   * A page of all schedules, by name.
   *
   * @param page which page
   * @return the page
   */
  public Page<Schedule> list(PageRequest page) {
    ListSchedulesRequest request =
        ListSchedulesRequest.newBuilder().setPageSize(page.size()).setPageToken(page.token()).build();
    var answer = calls.once(SchedulesGrpc.getListSchedulesMethod(), request);
    return Page.of(answer.getSchedulesList(), Schedule::read, page, answer.getNextPageToken());
  }

  /**
   * Ends a schedule. Jobs that it submitted stay.
   *
   * @param name the name
   */
  public void delete(String name) {
    DeleteScheduleRequest request = DeleteScheduleRequest.newBuilder().setName(name).build();
    calls.once(SchedulesGrpc.getDeleteScheduleMethod(), request);
  }
}
