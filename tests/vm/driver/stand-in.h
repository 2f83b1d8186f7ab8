/* What both stand-in modules share: functions that keep their names and their calls. */
#ifndef STAND_IN_H
#define STAND_IN_H

#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/version.h>
#include <linux/workqueue.h>

/* noinline is not enough: gcc would still make a clone with other arguments. */
#define KEPT __attribute__((__noipa__)) noinline
/* As the driver's prebuilt core: no ftrace site, so that a probe is refused. */
#define CORE KEPT notrace

/* The queue that the real modules each have a copy of. */
typedef struct nv_kthread_q {
	struct workqueue_struct *work;
} nv_kthread_q_t;

typedef struct nv_kthread_q_item {
	struct work_struct work;
	void (*function)(void *);
	void *argument;
} nv_kthread_q_item_t;

static KEPT void _main_loop(struct work_struct *work)
{
	nv_kthread_q_item_t *item = container_of(work, nv_kthread_q_item_t, work);

	item->function(item->argument);
}

static KEPT int _raw_q_schedule(nv_kthread_q_t *q, nv_kthread_q_item_t *item)
{
	return queue_work(q->work, &item->work);
}

KEPT int nv_kthread_q_schedule_q_item(nv_kthread_q_t *q, nv_kthread_q_item_t *item);
KEPT int nv_kthread_q_schedule_q_item(nv_kthread_q_t *q, nv_kthread_q_item_t *item)
{
	return _raw_q_schedule(q, item);
}

static void nv_kthread_q_item_init(nv_kthread_q_item_t *item, void (*function)(void *), void *argument)
{
	INIT_WORK(&item->work, _main_loop);
	item->function = function;
	item->argument = argument;
}

#endif
