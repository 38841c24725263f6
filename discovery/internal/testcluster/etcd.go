package main

import (
	"flag"
	"fmt"
	"net/url"

	"go.etcd.io/etcd/server/v3/embed"
)

// etcd serves one member on loopback until it fails. It never waits for the disk: what it holds need not outlive the machine.
func etcd(args []string) error {
	flags := flag.NewFlagSet("etcd", flag.ExitOnError)
	data := flags.String("data", "", "folder of its files; when the input ends, it is removed with all that is in it")
	clientPort := flags.Int("client-port", 0, "port for clients; 0: a free one")
	peerPort := flags.Int("peer-port", 0, "port for other members, which there are none of; 0: a free one")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *data == "" {
		return fmt.Errorf("etcd: say --data")
	}
	go endWithInput(*data)
	member, err := embed.StartEtcd(alone(*data, loopback(*clientPort), loopback(*peerPort)))
	if err != nil {
		return err
	}
	defer member.Close()
	select {
	case <-member.Server.ReadyNotify():
	case err := <-member.Err():
		return err
	}
	fmt.Printf("http://%s\n", member.Clients[0].Addr())
	return <-member.Err()
}

// alone is the configuration of a cluster of one.
func alone(data string, client, peer url.URL) *embed.Config {
	cfg := embed.NewConfig()
	cfg.Dir, cfg.UnsafeNoFsync, cfg.LogLevel = data, true, "error"
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	return cfg
}

func loopback(port int) url.URL {
	return url.URL{Scheme: "http", Host: fmt.Sprintf("127.0.0.1:%d", port)}
}
