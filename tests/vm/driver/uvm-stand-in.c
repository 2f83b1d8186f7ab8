/*
 * A stand-in for nvidia-uvm.ko: its device file, its dispatch of requests, and a fault of the CPU
 * on memory that it mapped.
 */
#include "stand-in.h"

#include <linux/cdev.h>
#include <linux/fs.h>
#include <linux/mm.h>

static nv_kthread_q_t queue;
static nv_kthread_q_item_t item;
static struct cdev device;
static dev_t number;

KEPT int uvm_api_migrate(void *params, struct file *file);
KEPT int uvm_api_migrate(void *params, struct file *file)
{
	nv_kthread_q_schedule_q_item(&queue, &item);
	return 0;
}

KEPT int uvm_api_free(void *params, struct file *file);
KEPT int uvm_api_free(void *params, struct file *file)
{
	return 0;
}

static KEPT long uvm_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	switch (cmd) {
	case 51:
		return uvm_api_migrate((void *)arg, file);
	case 34:
		return uvm_api_free((void *)arg, file);
	case 0x30000001:
		return 0;
	}
	return -EINVAL;
}

KEPT long uvm_unlocked_ioctl_entry(struct file *file, unsigned int cmd, unsigned long arg);
KEPT long uvm_unlocked_ioctl_entry(struct file *file, unsigned int cmd, unsigned long arg)
{
	return uvm_ioctl(file, cmd, arg);
}

static KEPT vm_fault_t uvm_vm_fault_entry(struct vm_fault *fault)
{
	struct page *page = alloc_page(GFP_KERNEL | __GFP_ZERO);

	if (!page)
		return VM_FAULT_OOM;
	fault->page = page;
	return 0;
}

static const struct vm_operations_struct uvm_vm_ops = { .fault = uvm_vm_fault_entry };

static KEPT int uvm_mmap(struct file *file, struct vm_area_struct *area)
{
	area->vm_ops = &uvm_vm_ops;
	return 0;
}

static KEPT void uvm_deferred(void *argument)
{
	barrier();
}

static const struct file_operations uvm_fops = {
	.owner = THIS_MODULE,
	.unlocked_ioctl = uvm_unlocked_ioctl_entry,
	.mmap = uvm_mmap,
};

static int __init load(void)
{
	int failed;

	queue.work = alloc_ordered_workqueue("nvidia-uvm", 0);
	if (!queue.work)
		return -ENOMEM;
	nv_kthread_q_item_init(&item, uvm_deferred, NULL);
	cdev_init(&device, &uvm_fops);
	failed = alloc_chrdev_region(&number, 0, 2, "nvidia-uvm");
	if (!failed)
		failed = cdev_add(&device, number, 2);
	if (failed)
		destroy_workqueue(queue.work);
	return failed;
}

static void __exit unload(void)
{
	cdev_del(&device);
	unregister_chrdev_region(number, 2);
	destroy_workqueue(queue.work);
}

module_init(load);
module_exit(unload);
MODULE_LICENSE("Dual MIT/GPL");
MODULE_DESCRIPTION("cutrace: a stand-in for nvidia-uvm.ko");
